package compat;

import static compat.Client.ADMIN;
import static compat.Client.BEGINNING;
import static compat.Client.END;
import static compat.Client.consume;
import static compat.Client.create;
import static compat.Client.name;
import static compat.Client.produce;
import static compat.Harness.BASE_MS;
import static compat.Harness.STEP_MS;
import static compat.Harness.eventually;
import static compat.Harness.expect;
import static compat.Harness.expectRecords;
import static compat.Harness.expectRefused;
import static compat.Harness.numbered;

import compat.Harness.Check;
import compat.Harness.Data;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Utils;

/** Kafka's own Java client. check: its checks. cross: reads what the other clients wrote. */
public final class Main {
    private static final Map<String, Object> DEFAULTS = Map.of();
    private static final Map<String, Object> ONE_BATCH = Map.of("compression.type", "lz4", "linger.ms", 200);

    private Main() {}

    static void roundTrip(String codec) throws Exception {
        Path file = Harness.RECORDS.resolve("records.tsv");
        String topic = create(codec, 1, Map.of());
        List<Data> sent = Harness.load(file);
        produce(topic, sent, Map.of("compression.type", codec));
        expectRecords(consume(topic, 0, BEGINNING, sent.size()), sent, 0);
        Harness.leaveForOthers(topic, file);
    }

    static void acks(String level) throws Exception {
        String topic = create("acks-" + level, 1, Map.of());
        produce(topic, numbered(100), Map.of("acks", level, "enable.idempotence", false));
        expectRecords(consume(topic, 0, 0, 100), numbered(100), 0);
    }

    static void idempotent() throws Exception {
        String topic = create("idempotent", 1, Map.of());
        List<Data> sent = numbered(5000);
        List<RecordMetadata> placed = produce(topic, sent, Map.of("batch.size", 2000));
        for (int i = 0; i < placed.size(); i++) expect(placed.get(i).offset(), (long) i, "offset acknowledged");
        expectRecords(consume(topic, 0, 0, sent.size(), 20, Map.of("isolation.level", "read_committed")), sent, 0);
    }

    static void partitionsByKey() throws Exception {
        List<Data> sent = new ArrayList<>();
        List<Integer> wanted = new ArrayList<>();
        for (String line : Files.readAllLines(Harness.RECORDS.resolve("keys.tsv"))) {
            String[] parts = line.split("\t");
            sent.add(new Data(BASE_MS, Harness.unhexed(parts[0]), line.getBytes(), List.of()));
            wanted.add(Integer.valueOf(parts[1]));
            expect(Utils.toPositive(Utils.murmur2(sent.get(sent.size() - 1).key())) % 7, wanted.get(wanted.size() - 1), "keys.tsv");
        }
        String topic = create("keyed", 7, Map.of());
        expect(produce(topic, sent, DEFAULTS).stream().map(RecordMetadata::partition).toList(), wanted, "partitions");
        for (int partition = 0; partition < 7; partition++) {
            List<Data> there = new ArrayList<>();
            for (int i = 0; i < sent.size(); i++) if (wanted.get(i) == partition) there.add(sent.get(i));
            expectRecords(consume(topic, partition, 0, there.size()), there, 0);
        }
    }

    static void seeks() throws Exception {
        String topic = create("seeks", 1, Map.of());
        List<Data> sent = numbered(100);
        produce(topic, sent, ONE_BATCH);
        for (int start : new int[] {0, 1, 57, 99}) {
            expectRecords(consume(topic, 0, start, 100 - start), sent.subList(start, 100), start);
        }
        expect(consume(topic, 0, END, 1, 1, DEFAULTS).size(), 0, "records at the end");
        List<TopicPartition> at = List.of(new TopicPartition(topic, 0));
        try (KafkaConsumer<byte[], byte[]> consumer = Client.consumer(DEFAULTS)) {
            expect(consumer.beginningOffsets(at), Map.of(at.get(0), 0L), "first offset");
            expect(consumer.endOffsets(at), Map.of(at.get(0), 100L), "end offset");
        }
        expectRefused(OffsetOutOfRangeException.class, "a fetch beyond the end", () -> consume(topic, 0, 101, 1));
    }

    static void times() throws Exception {
        String topic = create("times", 1, Map.of());
        List<Data> sent = numbered(100);
        produce(topic, sent, ONE_BATCH);
        produce(topic, sent.subList(0, 1), DEFAULTS); // an early timestamp after later ones
        TopicPartition at = new TopicPartition(topic, 0);
        long last = BASE_MS + 99 * STEP_MS;
        try (KafkaConsumer<byte[], byte[]> consumer = Client.consumer(DEFAULTS)) {
            for (long[] one : new long[][] {
                {0, 0}, {BASE_MS, 0}, {BASE_MS + 1, 1}, {BASE_MS + 42 * STEP_MS, 42}, {BASE_MS + 42 * STEP_MS + 500, 43},
                {last, 99}, {last + 1, -1}, {last + 3_600_000, -1},
            }) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(at, one[0])).get(at);
                expect(found == null ? -1 : found.offset(), one[1], "offset for time " + (one[0] - BASE_MS));
                if (found != null) expect(found.timestamp(), BASE_MS + one[1] * STEP_MS, "its timestamp");
            }
        }
        expect(ADMIN.listOffsets(Map.of(at, org.apache.kafka.clients.admin.OffsetSpec.maxTimestamp()))
            .partitionResult(at).get().offset(), 99L, "offset of the highest timestamp");
    }

    static void parkedFetch() throws Exception {
        String topic = create("parked", 1, Map.of());
        produce(topic, numbered(1), DEFAULTS);
        Map<String, Object> patient = Map.of("fetch.max.wait.ms", 20_000);
        CompletableFuture<Long> reader = CompletableFuture.supplyAsync(() -> {
            expectRecords(consume(topic, 0, 1, 1, 25, patient), numbered(1), 1);
            return System.nanoTime();
        });
        Thread.sleep(1000); // lets the fetch park; were it not parked by then, the check would only be weaker
        produce(topic, numbered(1), DEFAULTS);
        long produced = System.nanoTime();
        double seconds = (reader.get() - produced) / 1e9;
        if (seconds > 3) throw new AssertionError("the parked reader got the record " + seconds + " s late");
    }

    /** A batch larger than the client asks for comes all the same, and too little data comes after the wait. */
    static void fetchSizes() throws Exception {
        String topic = create("sizes", 1, Map.of());
        List<Data> sent = Harness.load(Harness.RECORDS.resolve("records.tsv"));
        produce(topic, sent, DEFAULTS);
        expectRecords(consume(topic, 0, 0, sent.size(), 20, Map.of("max.partition.fetch.bytes", 1000)), sent, 0);
        expectRecords(consume(topic, 0, 0, sent.size(), 20, Map.of("fetch.max.bytes", 1000)), sent, 0);
        long start = System.nanoTime();
        Map<String, Object> greedy = Map.of("fetch.min.bytes", 50_000_000, "fetch.max.wait.ms", 1000);
        expect(consume(topic, 0, sent.size() - 1, 1, 20, greedy).size(), 1, "records when fewer bytes are there than wanted");
        double seconds = (System.nanoTime() - start) / 1e9;
        expect(seconds > 0.9 && seconds < 4, true, "a wait of a second, not " + seconds + ",");
    }

    /** One consumer of many partitions of two topics, so one fetch session to which most rounds bring few changes. */
    static void manyPartitions() throws Exception {
        List<TopicPartition> all = new ArrayList<>();
        for (String word : List.of("many-a", "many-b")) {
            String topic = create(word, 30, Map.of());
            for (int partition = 0; partition < 30; partition++) all.add(new TopicPartition(topic, partition));
        }
        try (KafkaProducer<byte[], byte[]> producer = Client.producer(DEFAULTS);
                KafkaConsumer<byte[], byte[]> consumer = Client.consumer(Map.of("isolation.level", "read_committed"))) {
            consumer.assign(all);
            consumer.seekToBeginning(all);
            for (int round = 0; round < 20; round++) {
                List<TopicPartition> some = new ArrayList<>();
                for (int i = 0; i < 7; i++) some.add(all.get((round * 13 + i * 11) % all.size()));
                Map<TopicPartition, Integer> wanted = new HashMap<>();
                for (TopicPartition at : some) {
                    producer.send(new ProducerRecord<>(at.topic(), at.partition(), null, new byte[] {(byte) round}));
                    wanted.merge(at, 1, Integer::sum);
                }
                producer.flush();
                Map<TopicPartition, Integer> got = new HashMap<>();
                for (long end = System.nanoTime() + 10_000_000_000L; !got.equals(wanted) && System.nanoTime() < end;) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                        expect(record.value()[0], (byte) round, "round of a record");
                        got.merge(new TopicPartition(record.topic(), record.partition()), 1, Integer::sum);
                    }
                }
                expect(got, wanted, "records of round " + round);
            }
        }
    }

    static void topicLife() throws Exception {
        String topic = name("life");
        NewTopic wanted = new NewTopic(topic, 3, (short) 1).configs(Map.of("retention.ms", "3600000"));
        CreateTopicsResult created = ADMIN.createTopics(List.of(wanted));
        expect(created.numPartitions(topic).get(), 3, "partitions as answered");
        expect(created.replicationFactor(topic).get(), 1, "replicas as answered");
        expect(created.config(topic).get().get("retention.ms").value(), "3600000", "setting as answered");
        eventually("the topic is listed", () -> ADMIN.listTopics().names().get().contains(topic));
        var described = ADMIN.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        expect(described.partitions().size(), 3, "partitions as described");
        expect(described.topicId(), created.topicId(topic).get(), "topic id");
        expectRefused(TopicExistsException.class, "creating it again", () -> create(wanted, false));
        produce(topic, numbered(20), DEFAULTS);
        ADMIN.deleteTopics(List.of(topic)).all().get();
        eventually("the topic is gone", () -> !ADMIN.listTopics().names().get().contains(topic));
        expectRefused(UnknownTopicOrPartitionException.class, "deleting it again",
            () -> ADMIN.deleteTopics(List.of(topic)).all().get());
        create(new NewTopic(topic, Optional.empty(), Optional.empty()), false); // the broker's defaults
        expect(consume(topic, 0, BEGINNING, 1, 1, DEFAULTS).size(), 0, "records of a topic created anew");
    }

    static void topicRefusals() throws Exception {
        String topic = name("refused");
        int broker = ADMIN.describeCluster().nodes().get().iterator().next().id();
        Object[][] cases = {
            {InvalidPartitionsException.class, new NewTopic(topic, 0, (short) 1)},
            {InvalidReplicationFactorException.class, new NewTopic(topic, 1, (short) 3)},
            {InvalidReplicationFactorException.class, new NewTopic(topic, 1, (short) 0)},
            {InvalidReplicaAssignmentException.class, new NewTopic(topic, Map.of(0, List.of(broker, broker)))},
            {InvalidReplicaAssignmentException.class, new NewTopic(topic, Map.of(1, List.of(broker)))},
            {InvalidReplicaAssignmentException.class, new NewTopic(topic, Map.of(0, List.of(broker + 77)))},
            {InvalidConfigurationException.class, new NewTopic(topic, 1, (short) 1).configs(Map.of("no.such.setting", "1"))},
            {InvalidConfigurationException.class, new NewTopic(topic, 1, (short) 1).configs(Map.of("segment.bytes", "-5"))},
            {InvalidConfigurationException.class, new NewTopic(topic, 1, (short) 1).configs(Map.of("retention.ms", "soon"))},
            {InvalidTopicException.class, new NewTopic("a/b", 1, (short) 1)},
            {InvalidTopicException.class, new NewTopic("x".repeat(250), 1, (short) 1)},
        };
        for (Object[] one : cases) {
            NewTopic bad = (NewTopic) one[1];
            expectRefused(((Class<?>) one[0]).asSubclass(Exception.class), bad.toString(), () -> create(bad, false));
        }
        create(new NewTopic(name("assigned"), Map.of(0, List.of(broker), 1, List.of(broker))), false);
        expect(ADMIN.listTopics().names().get().contains(topic), false, "a refused topic exists");
    }

    static void validateOnly() throws Exception {
        String topic = name("validated");
        create(new NewTopic(topic, 2, (short) 1), true);
        expectRefused(InvalidPartitionsException.class, "no partitions", () -> create(new NewTopic(topic, 0, (short) 1), true));
        expect(ADMIN.listTopics().names().get().contains(topic), false, "a topic that was only validated exists");
    }

    static void unknownTopic() throws Exception {
        String topic = name("unknown");
        for (int i = 0; i < 3; i++, Thread.sleep(200)) { // a creation by mistake would take a moment
            expectRefused(UnknownTopicOrPartitionException.class, "describing an unknown topic",
                () -> ADMIN.describeTopics(List.of(topic)).allTopicNames().get());
        }
        expect(consume(topic, 0, 0, 1, 2, DEFAULTS).size(), 0, "records of an unknown topic");
        expect(ADMIN.listTopics().names().get().contains(topic), false, "the topic exists after it was only read");
    }

    static void createdByUse() throws Exception {
        List<Data> sent = List.of(new Data(null, "key".getBytes(), "value".getBytes(), List.of())); // of now
        produce(name("by-use"), sent, DEFAULTS);
        expectRecords(consume(name("by-use"), 0, 0, 1), sent, 0);
    }

    /** The same idempotent producer goes on after the refusal. */
    static void tooLarge() throws Exception {
        String topic = create("small", 1, Map.of("max.message.bytes", "10000"));
        byte[] value = new byte[20_000];
        new Random(1).nextBytes(value);
        try (KafkaProducer<byte[], byte[]> producer = Client.producer(DEFAULTS)) {
            expectRefused(RecordTooLargeException.class, "a record over max.message.bytes",
                () -> producer.send(new Data(BASE_MS, null, value, List.of()).to(topic, 0)).get());
            producer.send(numbered(1).get(0).to(topic, 0)).get();
        }
        expectRecords(consume(topic, 0, 0, 1), numbered(1), 0);
    }

    static void appendTime() throws Exception {
        String topic = create("append-time", 1, Map.of("message.timestamp.type", "LogAppendTime"));
        long before = System.currentTimeMillis();
        List<RecordMetadata> placed = produce(topic, numbered(10), ONE_BATCH);
        long after = System.currentTimeMillis();
        List<ConsumerRecord<byte[], byte[]>> got = consume(topic, 0, 0, 10);
        expect(got.size(), 10, "number of records");
        for (int i = 0; i < 10; i++) {
            expect(got.get(i).timestampType(), TimestampType.LOG_APPEND_TIME, "timestamp type");
            expect(got.get(i).timestamp(), placed.get(i).timestamp(), "timestamp read and acknowledged");
            expect(before <= got.get(i).timestamp() && got.get(i).timestamp() <= after, true, "timestamp is the broker's");
            expect(new String(got.get(i).value()), new String(numbered(10).get(i).value()), "value");
        }
    }

    /** Everything acknowledged across a kill -9 is there once and in order, for producers with the client's defaults. */
    static void brokerRestart() throws Exception {
        String topic = create("restart", 1, Map.of());
        List<Data> sent = numbered(6000);
        Process restart = null;
        try (KafkaProducer<byte[], byte[]> producer = Client.producer(Map.of("batch.size", 1000))) {
            List<Future<RecordMetadata>> answers = new ArrayList<>();
            for (int i = 0; i < sent.size(); i++) {
                if (i == sent.size() / 2) {
                    producer.flush();
                    restart = new ProcessBuilder("sh", "-c", Harness.RESTART).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
                }
                answers.add(producer.send(sent.get(i).to(topic, 0)));
                if (i % 10 == 0) Thread.sleep(2); // so that the kill meets requests in flight
            }
            producer.flush();
            for (int i = 0; i < sent.size(); i++) expect(answers.get(i).get().offset(), (long) i, "offset acknowledged");
        }
        expect(restart.waitFor(), 0, "exit of the restart command");
        expectRecords(consume(topic, 0, 0, sent.size()), sent, 0);
    }

    static List<Check> checks() {
        List<Check> all = new ArrayList<>();
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            all.add(new Check("round trip, " + codec, () -> roundTrip(codec)));
        }
        all.addAll(List.of(
            new Check("acks 0", () -> acks("0")),
            new Check("acks 1", () -> acks("1")),
            new Check("idempotent producer", Main::idempotent),
            new Check("key to partition", Main::partitionsByKey),
            new Check("seek to beginning, end, into a batch, out of range", Main::seeks),
            new Check("offsets for times", Main::times),
            new Check("parked fetch wakes on new data", Main::parkedFetch),
            new Check("small and large fetch sizes", Main::fetchSizes),
            new Check("many partitions in one fetch session", Main::manyPartitions),
            new Check("topic created, listed, described, deleted", Main::topicLife),
            new Check("topics that must be refused", Main::topicRefusals),
            new Check("validate only", Main::validateOnly),
            new Check("unknown topic", Main::unknownTopic),
            new Check("topic created by use", Main::createdByUse),
            new Check("max.message.bytes", Main::tooLarge),
            new Check("LogAppendTime", Main::appendTime)));
        all.addAll(Operator.checks());
        if (Harness.RESTART != null) {
            all.add(new Check("kill -9 and restart under an idempotent producer", Main::brokerRestart));
        }
        return all;
    }

    static List<Check> crossChecks() throws Exception {
        List<Check> all = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(Harness.CROSS))) {
            String[] sides = line.split("=");
            if (sides[0].startsWith(name(""))) continue;
            all.add(new Check("reads " + sides[0].substring(Harness.RUN.length() + 1), () -> {
                List<Data> wanted = Harness.load(Path.of(sides[1]));
                expectRecords(consume(sides[0], 0, 0, wanted.size()), wanted, 0);
            }));
        }
        return all;
    }

    public static void main(String[] arguments) throws Exception {
        boolean cross = arguments.length > 0 && arguments[0].equals("cross");
        int failed = Harness.run(cross ? crossChecks() : checks());
        System.exit(failed == 0 ? 0 : 1);
    }
}
