package compat;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a group beside the tools, so that they have a live one to tell of: reads and commits all there is. */
final class Reader implements Runnable {
    private static final Map<String, Reader> READERS = new HashMap<>();

    private final CompletableFuture<Void> caughtUp = new CompletableFuture<>();
    private final Map<String, Object> settings;
    private final List<String> topics;
    private final Thread thread = new Thread(this);
    private volatile boolean leaving;

    private Reader(Map<String, Object> settings, List<String> topics) {
        this.settings = settings;
        this.topics = topics;
    }

    /** GROUP CLIENT TOPIC,... [INSTANCE]: returns when it has partitions, and has committed what they hold. */
    static void join(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of(
                "bootstrap.servers", Harness.BOOTSTRAP,
                "group.id", arguments[0],
                "client.id", arguments[1],
                "auto.offset.reset", "earliest",
                "enable.auto.commit", false,
                "session.timeout.ms", 600_000, // an instance that went is a member for as long as the tools run
                "heartbeat.interval.ms", 100,
                "partition.assignment.strategy", RangeAssignor.class.getName()));
        if (arguments.length > 3) settings.put("group.instance.id", arguments[3]);
        Reader reader = new Reader(settings, List.of(arguments[2].split(",")));
        READERS.put(arguments[1], reader);
        reader.thread.start();
        reader.caughtUp.get();
    }

    /** CLIENT */
    static void leave(String[] arguments) throws Exception {
        Reader reader = READERS.remove(arguments[0]);
        reader.leaving = true;
        reader.thread.join();
    }

    @Override
    public void run() {
        var bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.subscribe(topics);
            while (!leaving) {
                if (!consumer.poll(Duration.ofMillis(50)).isEmpty()) consumer.commitSync();
                else if (!caughtUp.isDone() && isAtEnd(consumer)) caughtUp.complete(null);
            }
        } catch (RuntimeException error) {
            caughtUp.completeExceptionally(error);
        }
    }

    private static boolean isAtEnd(KafkaConsumer<?, ?> consumer) {
        Map<TopicPartition, Long> ends = consumer.endOffsets(consumer.assignment());
        if (ends.isEmpty()) return false;
        return ends.entrySet().stream().allMatch(end -> consumer.position(end.getKey()) == end.getValue());
    }
}
