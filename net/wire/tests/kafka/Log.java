// Has a real broker write every kind of record that its coordinator of classic and consumer groups knows, and prints what
// then stands in __consumer_offsets: the key and the value of a record a line, in hexadecimal, "-" for a tombstone. In
// net/wire/tests/kafka, with a fresh peer:
//
//     ../../../../scripts/peers/kafka start --set offsets.topic.num.partitions=1
//     java -cp "$(../../../../scripts/peers/kafka jars)/*" Log.java 127.0.0.1:PORT > log.txt

import java.time.Duration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Log {
    static String bootstrap;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        try (var admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic("orders", 2, (short) 1))).all().get();
            produce();
            reads("classic", Map.of("group.protocol", "classic", "group.instance.id", "static"), false);
            reads("modern", Map.of("group.protocol", "consumer", "client.rack", "r"), true);
            // A consumer that speaks the classic protocol joins a group of the other kind while that has a member.
            mixed();
            // A static member stays when it closes.
            var gone = new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("static")));
            admin.removeMembersFromConsumerGroup("classic", gone).all().get();
            admin.deleteConsumerGroupOffsets("classic", Set.of(new TopicPartition("orders", 0))).all().get();
            admin.deleteConsumerGroups(List.of("classic", "modern")).all().get();
        }
        print();
    }

    static void produce() {
        var settings = Map.<String, Object>of("bootstrap.servers", bootstrap);
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int partition = 0; partition < 2; partition++)
                producer.send(new ProducerRecord<>("orders", partition, null, new byte[] {1}));
        }
    }

    static KafkaConsumer<byte[], byte[]> consumer(String group, Map<String, Object> more) {
        var settings = new HashMap<String, Object>(Map.of("bootstrap.servers", bootstrap, "group.id", group,
            "client.id", "c", "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        settings.putAll(more);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static void reads(String group, Map<String, Object> settings, boolean pattern) {
        try (var consumer = consumer(group, settings)) {
            if (pattern) consumer.subscribe(new SubscriptionPattern("ord.*"));
            else consumer.subscribe(List.of("orders"));
            for (int records = 0; records < 2; )
                records += consumer.poll(Duration.ofSeconds(1)).count();
            consumer.commitSync(Map.of(new TopicPartition("orders", 0), new OffsetAndMetadata(1, "note"),
                new TopicPartition("orders", 1), new OffsetAndMetadata(1)));
        }
    }

    static void mixed() {
        try (var modern = consumer("mixed", Map.of("group.protocol", "consumer"));
             var classic = consumer("mixed", Map.of("group.protocol", "classic"))) {
            modern.subscribe(List.of("orders"));
            while (modern.assignment().size() != 2)
                modern.poll(Duration.ofMillis(100));
            classic.subscribe(List.of("orders"));
            while (classic.assignment().size() != 1) {
                modern.poll(Duration.ofMillis(100));
                classic.poll(Duration.ofMillis(100));
            }
        }
    }

    static void print() {
        try (var consumer = consumer("none", Map.of("exclude.internal.topics", "false"))) {
            var log = new TopicPartition("__consumer_offsets", 0);
            consumer.assign(List.of(log));
            consumer.seekToBeginning(List.of(log));
            long end = consumer.endOffsets(List.of(log)).get(log);
            while (consumer.position(log) < end)
                for (var record : consumer.poll(Duration.ofSeconds(1)))
                    System.out.println(hex(record.key()) + " " + hex(record.value()));
        }
    }

    static String hex(byte[] bytes) {
        return bytes == null ? "-" : HexFormat.of().formatHex(bytes);
    }
}
