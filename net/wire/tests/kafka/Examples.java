// Writes bytes with the classes of Kafka itself, as the judge of ours where no other implementation knows the format.
// From the root of the repository:
//
//     java -cp "$(scripts/peers/kafka jars)/*" net/wire/tests/kafka/Examples.java > net/wire/tests/kafka/examples.txt

import java.util.HexFormat;
import java.util.List;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.DeleteGroupsRequestData;
import org.apache.kafka.common.message.DeleteGroupsResponseData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.group.generated.*;

public class Examples {
    static final Uuid ORDERS = new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f10L);

    static void line(String name, byte[] bytes) {
        System.out.println(name + " " + HexFormat.of().formatHex(bytes));
    }

    static void key(ApiMessage key) {
        line(key.getClass().getSimpleName(), MessageUtil.toCoordinatorTypePrefixedBytes(key));
    }

    /** The value at every version; what a version lacks is left out, as when Kafka writes it. */
    static void value(String name, Message value) {
        for (short version = 0; version <= value.highestSupportedVersion(); version++)
            line(name + "/" + version, MessageUtil.toVersionPrefixedBytes(version, value));
    }

    static void message(Message message, int version) {
        var bytes = MessageUtil.toByteBufferAccessor(message, (short) version).buffer();
        var body = new byte[bytes.remaining()];
        bytes.get(body);
        line(message.getClass().getSimpleName().replace("Data", "") + "/" + version, body);
    }

    public static void main(String[] arguments) {
        keys();
        offsets();
        classicGroup();
        consumerGroup();
        consumerGroupAssignments();
        messages();
    }

    static void keys() {
        key(new LegacyOffsetCommitKey().setGroup("größe").setTopic("orders").setPartition(7));
        key(new OffsetCommitKey().setGroup("größe").setTopic("orders").setPartition(7));
        key(new GroupMetadataKey().setGroup("größe"));
        key(new ConsumerGroupMetadataKey().setGroupId("größe"));
        key(new ConsumerGroupPartitionMetadataKey().setGroupId("größe"));
        key(new ConsumerGroupMemberMetadataKey().setGroupId("größe").setMemberId("m"));
        key(new ConsumerGroupTargetAssignmentMetadataKey().setGroupId("größe"));
        key(new ConsumerGroupTargetAssignmentMemberKey().setGroupId("größe").setMemberId("m"));
        key(new ConsumerGroupCurrentMemberAssignmentKey().setGroupId("größe").setMemberId("m"));
        key(new ConsumerGroupRegularExpressionKey().setGroupId("größe").setRegularExpression("o.*"));
        key(new ShareGroupMetadataKey().setGroupId("größe"));
        key(new StreamsGroupTopologyKey().setGroupId("größe"));
    }

    static void offsets() {
        value("LegacyOffsetCommitValue",
            new LegacyOffsetCommitValue().setOffset(1000).setMetadata("note").setCommitTimestamp(1_700_000_000_000L));
        value("OffsetCommitValue", new OffsetCommitValue().setOffset(1000).setLeaderEpoch(5).setMetadata("note")
            .setCommitTimestamp(1_700_000_000_000L).setExpireTimestamp(1_800_000_000_000L).setTopicId(ORDERS));
        value("OffsetCommitValue-bare", new OffsetCommitValue().setOffset(0).setMetadata("").setCommitTimestamp(1));
    }

    static void classicGroup() {
        var member = new GroupMetadataValue.MemberMetadata().setMemberId("m").setGroupInstanceId("static")
            .setClientId("c").setClientHost("/127.0.0.1").setRebalanceTimeout(300_000).setSessionTimeout(45_000)
            .setSubscription(new byte[] {1, 2, 3}).setAssignment(new byte[] {4, 5});
        var dynamic = member.duplicate().setMemberId("n").setGroupInstanceId(null).setAssignment(new byte[0]);
        value("GroupMetadataValue", new GroupMetadataValue().setProtocolType("consumer").setGeneration(3)
            .setProtocol("range").setLeader("m").setCurrentStateTimestamp(1_700_000_000_000L)
            .setMembers(List.of(member, dynamic)));
        value("GroupMetadataValue-empty", new GroupMetadataValue().setProtocolType("").setGeneration(0)
            .setProtocol(null).setLeader(null).setCurrentStateTimestamp(-1));
    }

    static void consumerGroup() {
        value("ConsumerGroupMetadataValue", new ConsumerGroupMetadataValue().setEpoch(9).setMetadataHash(-2));
        value("ConsumerGroupMetadataValue-bare", new ConsumerGroupMetadataValue().setEpoch(9));
        value("ConsumerGroupPartitionMetadataValue", new ConsumerGroupPartitionMetadataValue().setTopics(List.of(
            new ConsumerGroupPartitionMetadataValue.TopicMetadata().setTopicId(ORDERS).setTopicName("orders")
                .setNumPartitions(2).setPartitionMetadata(List.of(
                    new ConsumerGroupPartitionMetadataValue.PartitionMetadata().setPartition(1)
                        .setRacks(List.of("a", "b")))))));
        var member = new ConsumerGroupMemberMetadataValue().setInstanceId("static").setRackId("r").setClientId("c")
            .setClientHost("/127.0.0.1").setSubscribedTopicNames(List.of("orders", "payments"))
            .setSubscribedTopicRegex("o.*").setRebalanceTimeoutMs(300_000).setServerAssignor("uniform")
            .setClassicMemberMetadata(new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata()
                .setSessionTimeoutMs(45_000).setSupportedProtocols(List.of(
                    new ConsumerGroupMemberMetadataValue.ClassicProtocol().setName("range")
                        .setMetadata(new byte[] {1, 2}))));
        value("ConsumerGroupMemberMetadataValue", member);
        var bare = new ConsumerGroupMemberMetadataValue().setInstanceId(null).setRackId(null).setClientId("c")
            .setClientHost("h").setSubscribedTopicRegex(null).setServerAssignor(null);
        value("ConsumerGroupMemberMetadataValue-bare", bare);
        value("ConsumerGroupMemberMetadataValue-null", bare.setClassicMemberMetadata(null));
        value("ConsumerGroupRegularExpressionValue", new ConsumerGroupRegularExpressionValue()
            .setTopics(List.of("orders")).setVersion(12).setTimestamp(1_700_000_000_000L));
    }

    static void consumerGroupAssignments() {
        value("ConsumerGroupTargetAssignmentMetadataValue", new ConsumerGroupTargetAssignmentMetadataValue()
            .setAssignmentEpoch(9).setAssignmentTimestamp(1_700_000_000_000L));
        value("ConsumerGroupTargetAssignmentMetadataValue-bare",
            new ConsumerGroupTargetAssignmentMetadataValue().setAssignmentEpoch(9));
        value("ConsumerGroupTargetAssignmentMemberValue", new ConsumerGroupTargetAssignmentMemberValue()
            .setTopicPartitions(List.of(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition().setTopicId(ORDERS)
                .setPartitions(List.of(0, 1, 258)))));
        var partitions = new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions().setTopicId(ORDERS);
        value("ConsumerGroupCurrentMemberAssignmentValue", new ConsumerGroupCurrentMemberAssignmentValue()
            .setMemberEpoch(9).setPreviousMemberEpoch(8).setState((byte) 1)
            .setAssignedPartitions(List.of(partitions.duplicate().setPartitions(List.of(0, 1))
                .setAssignmentEpochs(List.of(7, 9))))
            .setPartitionsPendingRevocation(List.of(partitions.duplicate().setPartitions(List.of(2)),
                partitions.duplicate().setPartitions(List.of(3)).setAssignmentEpochs(null))));
    }

    static void messages() {
        message(new OffsetCommitRequestData().setGroupId("g").setGenerationIdOrMemberEpoch(4).setMemberId("m")
            .setGroupInstanceId("static").setTopics(List.of(new OffsetCommitRequestData.OffsetCommitRequestTopic()
                .setTopicId(ORDERS).setPartitions(List.of(new OffsetCommitRequestData.OffsetCommitRequestPartition()
                    .setPartitionIndex(7).setCommittedOffset(1000).setCommittedLeaderEpoch(5)
                    .setCommittedMetadata(null))))), 10);
        message(new OffsetFetchRequestData().setGroups(List.of(
            new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId("g").setMemberId("m").setMemberEpoch(4)
                .setTopics(List.of(new OffsetFetchRequestData.OffsetFetchRequestTopics().setTopicId(ORDERS)
                    .setPartitionIndexes(List.of(0, 7)))),
            new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId("all").setTopics(null)))
            .setRequireStable(true), 10);
        message(new DeleteGroupsRequestData().setGroupsNames(List.of("g")), 3);
        var results = new DeleteGroupsResponseData.DeletableGroupResultCollection();
        results.add(new DeleteGroupsResponseData.DeletableGroupResult().setGroupId("g").setErrorCode((short) 68)
            .setErrorMessage("members"));
        message(new DeleteGroupsResponseData().setThrottleTimeMs(1).setResults(results), 3);
    }
}
