package compat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Short forms of what the checks do with Kafka's own client. Nothing here sets what the client defaults to well. */
final class Client {
    static final long BEGINNING = -2;
    static final long END = -1;
    static final Admin ADMIN = Admin.create(Map.of("bootstrap.servers", Harness.BOOTSTRAP));

    private Client() {}

    static String name(String word) {
        return Harness.RUN + "." + Harness.CLIENT + "." + word;
    }

    static String create(String word, int partitions, Map<String, String> config) throws Exception {
        String topic = name(word);
        Map<String, String> all = new HashMap<>(config);
        all.put("retention.ms", "-1"); // or retention by time deletes the checks' records, which are years old
        create(new NewTopic(topic, partitions, (short) 1).configs(all), false);
        return topic;
    }

    static void create(NewTopic topic, boolean validateOnly) throws Exception {
        ADMIN.createTopics(List.of(topic), new CreateTopicsOptions().validateOnly(validateOnly)).all().get();
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, Object> options) {
        Map<String, Object> all = new HashMap<>(Map.of("bootstrap.servers", Harness.BOOTSTRAP));
        all.putAll(options);
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** Idempotent and with acks=all unless told otherwise: those are the client's defaults. */
    static List<RecordMetadata> produce(String topic, List<Harness.Data> records, Map<String, Object> options)
            throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(options)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (Harness.Data record : records) sent.add(producer.send(record.to(topic, null)));
            producer.flush();
            List<RecordMetadata> placed = new ArrayList<>();
            for (Future<RecordMetadata> one : sent) placed.add(one.get());
            return placed;
        }
    }

    static KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> options) {
        Map<String, Object> all = new HashMap<>(Map.of(
            "bootstrap.servers", Harness.BOOTSTRAP, "auto.offset.reset", "none", "allow.auto.create.topics", false,
            "enable.auto.commit", false));
        all.putAll(options);
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static List<ConsumerRecord<byte[], byte[]>> consume(String topic, int partition, long start, int count) {
        return consume(topic, partition, start, count, 20, Map.of());
    }

    /** From an offset, BEGINNING or END until there are count records or the seconds are over. */
    static List<ConsumerRecord<byte[], byte[]>> consume(
            String topic, int partition, long start, int count, int seconds, Map<String, Object> options) {
        KafkaConsumer<byte[], byte[]> consumer = consumer(options);
        try {
            List<TopicPartition> at = List.of(new TopicPartition(topic, partition));
            consumer.assign(at);
            if (start == BEGINNING) consumer.seekToBeginning(at);
            else if (start == END) consumer.seekToEnd(at);
            else consumer.seek(at.get(0), start);
            List<ConsumerRecord<byte[], byte[]>> got = new ArrayList<>();
            long deadline = System.nanoTime() + seconds * 1_000_000_000L;
            while (got.size() < count && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(got::add);
            }
            return got;
        } finally {
            consumer.close(CloseOptions.timeout(Duration.ZERO)); // or it waits for the fetch that is under way
        }
    }
}
