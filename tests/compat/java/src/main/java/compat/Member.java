package compat;

import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a group (tests/compat/groups): prints each record and commits it, until SIGTERM has it leave. */
public final class Member implements ConsumerRebalanceListener {
    private final PrintStream out = new PrintStream(System.out, false);
    private volatile boolean stopping;

    private Member() {}

    private void say(String what, Collection<TopicPartition> partitions) {
        List<String> words = new ArrayList<>(List.of(what));
        for (TopicPartition partition : partitions) words.add(String.valueOf(partition.partition()));
        out.println(String.join(" ", words));
        out.flush();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        say("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        say("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        say("lost", partitions);
    }

    private static Map<String, Object> settings() {
        Map<String, String> of = System.getenv();
        Map<String, Object> settings = new HashMap<>(Map.of(
                "bootstrap.servers", Harness.BOOTSTRAP,
                "client.id", of.get("NAME"),
                "group.id", of.get("GROUP"),
                "auto.offset.reset", "earliest",
                "enable.auto.commit", false,
                "fetch.max.wait.ms", 200));
        if (of.get("ASSIGNOR").equals("consumer")) {
            settings.put("group.protocol", "consumer");
        } else {
            boolean isCooperative = of.get("ASSIGNOR").equals("cooperative");
            Class<?> assignor = isCooperative ? CooperativeStickyAssignor.class : RangeAssignor.class;
            settings.put("partition.assignment.strategy", assignor.getName());
            settings.put("session.timeout.ms", of.get("SESSION_MS"));
            settings.put("heartbeat.interval.ms", 500);
        }
        if (of.containsKey("INSTANCE")) settings.put("group.instance.id", of.get("INSTANCE"));
        return settings;
    }

    private void run() {
        var text = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings(), text, text)) {
            consumer.subscribe(List.of(System.getenv("TOPIC")), this);
            while (!stopping) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> record : records) {
                    out.println("record " + record.partition() + " " + record.offset() + " " + record.value());
                }
                out.flush();
                if (!records.isEmpty()) commit(consumer);
            }
        }
        say("left", List.of());
    }

    /** Who has lost the partitions meanwhile can't commit: another member reads the records again. */
    private void commit(KafkaConsumer<?, ?> consumer) {
        try {
            consumer.commitSync();
        } catch (CommitFailedException | RebalanceInProgressException | RetriableException error) {
            System.err.println("not committed: " + error);
        }
    }

    public static void main(String[] none) {
        Member member = new Member();
        Thread running = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            member.stopping = true;
            try {
                running.join();
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }));
        member.run();
    }
}
