package compat;

import static compat.Client.ADMIN;
import static compat.Client.BEGINNING;
import static compat.Client.consume;
import static compat.Client.create;
import static compat.Client.name;
import static compat.Client.produce;
import static compat.Harness.BASE_MS;
import static compat.Harness.eventually;
import static compat.Harness.expect;
import static compat.Harness.expectRecords;
import static compat.Harness.expectRefused;
import static compat.Harness.numbered;

import compat.Harness.Check;
import compat.Harness.Data;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidRequestException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.record.TimestampType;

/** What an operator does with Kafka's own admin client. */
final class Operator {
    private static final Map<String, Object> DEFAULTS = Map.of();

    private Operator() {}

    static void grow(String topic, NewPartitions to, boolean validateOnly) throws Exception {
        ADMIN.createPartitions(Map.of(topic, to), new CreatePartitionsOptions().validateOnly(validateOnly)).all().get();
    }

    static void morePartitions() throws Exception {
        String topic = create("grows", 2, Map.of());
        produce(topic, numbered(20), DEFAULTS);
        int broker = ADMIN.describeCluster().nodes().get().iterator().next().id();
        grow(topic, NewPartitions.increaseTo(9), true);
        expect(Client.ADMIN.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size(), 2, "partitions");
        grow(topic, NewPartitions.increaseTo(4), false);
        grow(topic, NewPartitions.increaseTo(5, List.of(List.of(broker))), false);
        eventually("the topic has five partitions",
            () -> ADMIN.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == 5);
        int kept = consume(topic, 0, 0, 20, 2, DEFAULTS).size() + consume(topic, 1, 0, 20, 2, DEFAULTS).size();
        expect(kept, 20, "records of the old partitions");
        try (KafkaProducer<byte[], byte[]> producer = Client.producer(DEFAULTS)) {
            expect(producer.send(numbered(1).get(0).to(topic, 4)).get().offset(), 0L, "first offset of a new partition");
        }
        expectRecords(consume(topic, 4, 0, 1), numbered(1), 0);
        expectRefused(InvalidPartitionsException.class, "as many", () -> grow(topic, NewPartitions.increaseTo(5), false));
        expectRefused(InvalidPartitionsException.class, "fewer", () -> grow(topic, NewPartitions.increaseTo(3), false));
        expectRefused(InvalidReplicaAssignmentException.class, "too few assignments",
            () -> grow(topic, NewPartitions.increaseTo(8, List.of(List.of(broker))), false));
        expectRefused(InvalidReplicaAssignmentException.class, "an unknown broker",
            () -> grow(topic, NewPartitions.increaseTo(6, List.of(List.of(broker + 77))), false));
        expectRefused(UnknownTopicOrPartitionException.class, "an unknown topic",
            () -> grow(name("no-such"), NewPartitions.increaseTo(3), false));
    }

    static long delete(TopicPartition at, long before) throws Exception {
        return ADMIN.deleteRecords(Map.of(at, RecordsToDelete.beforeOffset(before))).lowWatermarks().get(at).get().lowWatermark();
    }

    static void deletedRecords() throws Exception {
        String topic = create("deleted", 1, Map.of());
        TopicPartition at = new TopicPartition(topic, 0);
        List<Data> sent = numbered(100);
        produce(topic, sent, Map.of("batch.size", 2000));
        expect(delete(at, 0), 0L, "start when nothing is deleted");
        expect(delete(at, 40), 40L, "start");
        expect(delete(at, 20), 40L, "start, which does not go back");
        expect(ADMIN.listOffsets(Map.of(at, OffsetSpec.earliest())).partitionResult(at).get().offset(), 40L, "first offset");
        expectRecords(consume(topic, 0, 40, 60), sent.subList(40, 100), 40);
        expectRefused(org.apache.kafka.clients.consumer.OffsetOutOfRangeException.class, "a fetch of what is deleted", () -> consume(topic, 0, 39, 1));
        expectRefused(OffsetOutOfRangeException.class, "a deletion beyond the end", () -> delete(at, 101));
        expect(delete(at, -1), 100L, "start when all is deleted");
        produce(topic, sent.subList(0, 1), DEFAULTS);
        expectRecords(consume(topic, 0, BEGINNING, 1), sent.subList(0, 1), 100);
    }

    static Config describe(ConfigResource of) throws Exception {
        DescribeConfigsOptions all = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        return ADMIN.describeConfigs(List.of(of), all).all().get().get(of);
    }

    static AlterConfigOp op(OpType type, String key, String value) {
        return new AlterConfigOp(new ConfigEntry(key, value), type);
    }

    static void alter(ConfigResource of, AlterConfigOp... operations) throws Exception {
        ADMIN.incrementalAlterConfigs(Map.of(of, Arrays.asList(operations))).all().get();
    }

    static void settings() throws Exception {
        String topic = create("settings", 1, Map.of("segment.ms", "123456789"));
        ConfigResource of = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Config before = describe(of);
        for (String key : List.of("cleanup.policy", "compression.type", "max.message.bytes", "retention.bytes", "segment.bytes",
                "message.timestamp.type", "unclean.leader.election.enable", "flush.messages")) {
            ConfigEntry entry = before.get(key);
            expect(entry.source(), ConfigEntry.ConfigSource.DEFAULT_CONFIG, "source of " + key);
            expect(entry.isReadOnly() || entry.isSensitive(), false, key + " is read only or sensitive");
            expect(entry.documentation() == null || entry.documentation().isEmpty(), false, key + " is without a word");
            expect(entry.synonyms().isEmpty(), false, key + " is without synonyms");
        }
        expect(before.get("cleanup.policy").value(), "delete", "cleanup.policy");
        expect(before.get("cleanup.policy").type(), ConfigEntry.ConfigType.LIST, "its type");
        expect(before.get("segment.ms").source(), ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, "source of segment.ms");
        expect(before.get("segment.ms").type(), ConfigEntry.ConfigType.LONG, "its type");
        expect(before.get("segment.ms").synonyms().size(), 1, "its synonyms: the broker's are in other units");
        expect(before.get("segment.bytes").synonyms().get(0).name(), "log.segment.bytes", "the broker's name for segment.bytes");
        expect(before.get("max.message.bytes").value(), "1048588", "max.message.bytes");

        alter(of, op(OpType.SET, "retention.bytes", "77"), op(OpType.DELETE, "segment.ms", ""));
        alter(of, op(OpType.APPEND, "cleanup.policy", "delete"));
        eventually("the settings have changed", () -> describe(of).get("retention.bytes").value().equals("77"));
        expect(describe(of).get("segment.ms").value(), "604800000", "segment.ms, taken away");
        alter(of, op(OpType.DELETE, "retention.bytes", ""));
        eventually("the setting is gone", () -> describe(of).get("retention.bytes").value().equals("-1"));

        for (AlterConfigOp bad : List.of(op(OpType.SET, "retention.ms", "soon"), op(OpType.SET, "no.such", "1"),
                op(OpType.SET, "segment.bytes", "-5"), op(OpType.APPEND, "retention.ms", "1"))) {
            expectRefused(InvalidConfigurationException.class, bad.toString(), () -> alter(of, bad));
        }
        ADMIN.incrementalAlterConfigs(Map.of(of, List.of(op(OpType.SET, "retention.bytes", "5"))),
            new AlterConfigsOptions().validateOnly(true)).all().get();
        expect(describe(of).get("retention.bytes").value(), "-1", "a setting that was only validated");
        ConfigResource unknown = new ConfigResource(ConfigResource.Type.TOPIC, name("no-such"));
        expectRefused(UnknownTopicOrPartitionException.class, "an unknown topic",
            () -> alter(unknown, op(OpType.SET, "retention.ms", "1")));
        expectRefused(UnknownTopicOrPartitionException.class, "an unknown topic", () -> describe(unknown));
        expectRefused(InvalidTopicException.class, "no topic's name",
            () -> describe(new ConfigResource(ConfigResource.Type.TOPIC, "a/b")));
    }

    /** Settings take effect in a topic that is being written to. */
    static void settingsTakeEffect() throws Exception {
        String topic = create("effect", 1, Map.of());
        ConfigResource of = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        byte[] value = new byte[20_000];
        new java.util.Random(1).nextBytes(value);
        Data large = new Data(BASE_MS, null, value, List.of());
        try (KafkaProducer<byte[], byte[]> producer = Client.producer(DEFAULTS)) {
            producer.send(large.to(topic, 0)).get();
            alter(of, op(OpType.SET, "max.message.bytes", "10000"));
            eventually("a record is too large", () -> {
                try {
                    producer.send(large.to(topic, 0)).get();
                    return false;
                } catch (java.util.concurrent.ExecutionException refused) {
                    return refused.getCause() instanceof RecordTooLargeException;
                }
            });
            alter(of, op(OpType.DELETE, "max.message.bytes", ""), op(OpType.SET, "message.timestamp.type", "LogAppendTime"));
            long now = System.currentTimeMillis();
            eventually("the broker's time is on a record", () -> producer.send(large.to(topic, 0)).get().timestamp() >= now);
            RecordMetadata last = producer.send(large.to(topic, 0)).get();
            var read = consume(topic, 0, last.offset(), 1);
            expect(read.get(0).timestampType(), TimestampType.LOG_APPEND_TIME, "timestamp type");
        }
    }

    static void brokerSettings() throws Exception {
        String id = ADMIN.describeCluster().nodes().get().iterator().next().idString();
        Config broker = describe(new ConfigResource(ConfigResource.Type.BROKER, id));
        for (String key : List.of("log.retention.hours", "num.partitions", "log.dirs", "message.max.bytes", "listeners",
                "advertised.listeners", "auto.create.topics.enable", "default.replication.factor", "log.cleanup.policy")) {
            expect(broker.get(key) != null, true, "a broker has " + key);
        }
        // Kafka makes one for a new cluster: min.insync.replicas.
        expect(describe(new ConfigResource(ConfigResource.Type.BROKER, "")).entries().size() <= 1, true, "few settings of all brokers");
        Set<ConfigResource.Type> topics = Set.of(ConfigResource.Type.TOPIC);
        String topic = create("listed", 1, Map.of());
        eventually("the topic is among the resources", () -> ADMIN.listConfigResources(topics,
            new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all().get()
            .contains(new ConfigResource(ConfigResource.Type.TOPIC, topic)));
        expect(ADMIN.listConfigResources(Set.of(ConfigResource.Type.BROKER),
            new org.apache.kafka.clients.admin.ListConfigResourcesOptions()).all().get(),
            List.of(new ConfigResource(ConfigResource.Type.BROKER, id)), "brokers among the resources");
    }

    static void cluster() throws Exception {
        var described = ADMIN.describeCluster();
        List<Node> nodes = new ArrayList<>(described.nodes().get());
        expect(nodes.size(), 1, "brokers");
        expect(described.controller().get().id(), nodes.get(0).id(), "controller");
        expect(described.clusterId().get().isEmpty(), false, "no cluster id");
        expect(described.authorizedOperations().get() == null, true, "operations that nobody asked for");
    }

    static void logDirs() throws Exception {
        String topic = create("sizes-on-disk", 2, Map.of());
        produce(topic, numbered(200), Map.of("batch.size", 1000));
        int broker = ADMIN.describeCluster().nodes().get().iterator().next().id();
        Map<String, LogDirDescription> dirs = ADMIN.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker);
        expect(dirs.size(), 1, "directories");
        LogDirDescription dir = dirs.values().iterator().next();
        expect(dir.error() == null, true, "no error");
        expect(dir.totalBytes().getAsLong() >= dir.usableBytes().getAsLong(), true, "more is usable than there is,");
        long bytes = 0;
        for (int partition = 0; partition < 2; partition++) {
            var replica = dir.replicaInfos().get(new TopicPartition(topic, partition));
            expect(replica.offsetLag() == 0 && !replica.isFuture(), true, "a replica that is up to date");
            bytes += replica.size();
        }
        expect(bytes > 200 * 10 && bytes < 200 * 1000, true, bytes + " bytes for 200 records");
    }

    static void pages() throws Exception {
        String one = create("pages-a", 7, Map.of());
        String two = create("pages-b", 5, Map.of());
        eventually("the topics are known", () -> ADMIN.listTopics().names().get().containsAll(List.of(one, two)));
        Map<String, TopicDescription> described = ADMIN.describeTopics(List.of(one, two),
            new DescribeTopicsOptions().partitionSizeLimitPerResponse(3)).allTopicNames().get();
        expect(described.get(one).partitions().size(), 7, "partitions of the first");
        expect(described.get(two).partitions().size(), 5, "partitions of the second");
        for (int i = 0; i < 7; i++) expect(described.get(one).partitions().get(i).partition(), i, "partitions are in order");
        expect(described.get(one).partitions().get(0).elr().isEmpty(), true, "eligible replicas that are not in sync");
    }

    static void topicsById() throws Exception {
        String topic = create("by-id", 3, Map.of());
        var id = ADMIN.describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId();
        TopicDescription described = ADMIN.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id);
        expect(described.name(), topic, "name of the topic of that id");
        expect(described.partitions().size(), 3, "its partitions");
        TopicCollection unknown = TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()));
        expectRefused(UnknownTopicIdException.class, "an unknown id", () -> ADMIN.describeTopics(unknown).allTopicIds().get());
        ADMIN.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
        eventually("the topic is gone", () -> !ADMIN.listTopics().names().get().contains(topic));
    }

    static void producers() throws Exception {
        String topic = create("producers", 1, Map.of());
        TopicPartition at = new TopicPartition(topic, 0);
        expect(ADMIN.describeProducers(List.of(at)).partitionResult(at).get().activeProducers().size(), 0, "producers before any");
        produce(topic, numbered(3), DEFAULTS);
        List<ProducerState> states = ADMIN.describeProducers(List.of(at)).partitionResult(at).get().activeProducers();
        expect(states.size(), 1, "producers");
        expect(states.get(0).lastSequence(), 2, "last sequence");
        expect(states.get(0).lastTimestamp(), numbered(3).get(2).timestamp(), "last timestamp");
        expect(states.get(0).producerEpoch(), 0, "epoch");
        expect(states.get(0).currentTransactionStartOffset().isPresent(), false, "a transaction is open");
        expect(states.get(0).coordinatorEpoch().isPresent(), false, "a coordinator's epoch");
    }

    static void elections() throws Exception {
        String topic = create("elections", 1, Map.of());
        TopicPartition at = new TopicPartition(topic, 0);
        TopicPartition unknown = new TopicPartition(name("no-such"), 0);
        expect(ADMIN.listPartitionReassignments().reassignments().get().isEmpty(), true, "no reassignments");
        expect(ADMIN.listPartitionReassignments(Set.of(at)).reassignments().get().isEmpty(), true, "no reassignments");
        for (ElectionType type : ElectionType.values()) {
            var outcomes = ADMIN.electLeaders(type, Set.of(at, unknown)).partitions().get();
            expect(outcomes.get(at).get().getClass(), ElectionNotNeededException.class, "an election of the leader");
            expect(outcomes.get(unknown).get().getClass(), UnknownTopicOrPartitionException.class, "of an unknown topic's");
        }
        expect(ADMIN.electLeaders(ElectionType.PREFERRED, null).partitions().get().isEmpty(), true, "elections that were needed");
    }

    static void brokerSettingsStay() throws Exception {
        String id = ADMIN.describeCluster().nodes().get().iterator().next().idString();
        expectRefused(InvalidRequestException.class, "a broker setting that is fixed",
            () -> alter(new ConfigResource(ConfigResource.Type.BROKER, id), op(OpType.SET, "node.id", "77")));
    }

    static List<Check> checks() {
        return List.of(
            new Check("more partitions", Operator::morePartitions),
            new Check("records deleted", Operator::deletedRecords),
            new Check("settings described and altered", Operator::settings),
            new Check("settings take effect", Operator::settingsTakeEffect),
            new Check("settings of a broker", Operator::brokerSettings),
            new Check("fixed settings of a broker", Operator::brokerSettingsStay),
            new Check("the cluster described", Operator::cluster),
            new Check("sizes in log directories", Operator::logDirs),
            new Check("topics described in pages", Operator::pages),
            new Check("topics described and deleted by id", Operator::topicsById),
            new Check("producers described", Operator::producers),
            new Check("elections and reassignments", Operator::elections));
    }
}
