package compat;

import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * A Kafka Streams application (tests/compat/apps) that gathers the numbers of each key. The records it reads are
 * "KEY NUMBER" without a key of their own, so that they have to be partitioned anew. Prints, a line each,
 *   state NAME           of the application
 *   restored STORE N OF  records read back from a changelog, over how many offsets; for each partition that has any
 *   failed ERROR         of a thread, which is then replaced
 */
public final class Counting implements StateRestoreListener {
    private final Map<TopicPartition, Long> ranges = new ConcurrentHashMap<>();

    private Counting() {}

    private static synchronized void say(String line) {
        System.out.println(line);
    }

    @Override
    public void onRestoreStart(TopicPartition partition, String store, long from, long end) {
        ranges.put(partition, end - from);
    }

    @Override
    public void onBatchRestored(TopicPartition partition, String store, long end, long count) {}

    @Override
    public void onRestoreEnd(TopicPartition partition, String store, long count) {
        long range = ranges.remove(partition);
        if (range > 0) say("restored " + store + " " + count + " " + range);
    }

    private static Topology topology(String input, String output) {
        var builder = new StreamsBuilder();
        Materialized<String, String, KeyValueStore<Bytes, byte[]>> store = Materialized.as("seen");
        // Small segments, so that what is restored is in many, and compacted as soon as may be.
        store.withLoggingEnabled(Map.of("segment.ms", "500", "min.cleanable.dirty.ratio", "0.01"));
        builder.<String, String>stream(input)
                .map((none, value) -> {
                    String[] words = value.split(" ");
                    return KeyValue.pair(words[0], words[1]);
                })
                .groupByKey(Grouped.as("by-key"))
                .aggregate(() -> Seen.NOTHING, (key, number, seen) -> Seen.add(seen, Integer.parseInt(number)), store)
                .toStream()
                .to(output);
        return builder.build();
    }

    private static Properties settings(Map<String, String> of) {
        var settings = new Properties();
        settings.putAll(Map.of(
                "bootstrap.servers", of.get("BOOTSTRAP"),
                "application.id", of.get("APPLICATION"),
                "state.dir", of.get("STATE"),
                "processing.guarantee", "at_least_once",
                "num.stream.threads", 2,
                "default.key.serde", Serdes.StringSerde.class,
                "default.value.serde", Serdes.StringSerde.class));
        settings.putAll(Map.of(
                "commit.interval.ms", 200,
                "repartition.purge.interval.ms", 200,
                "statestore.cache.max.bytes", 100_000,
                "main.consumer.heartbeat.interval.ms", 500,
                "main.consumer.session.timeout.ms", Integer.parseInt(of.get("SESSION_MS"))));
        return settings;
    }

    public static void main(String[] none) {
        Map<String, String> of = System.getenv();
        var streams = new KafkaStreams(topology(of.get("INPUT"), of.get("OUTPUT")), settings(of));
        streams.setStateListener((now, before) -> say("state " + now));
        streams.setGlobalStateRestoreListener(new Counting());
        streams.setUncaughtExceptionHandler(error -> {
            say("failed " + error.toString().replace('\n', ' '));
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
