package compat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** The settings of a run, the records of the files that records.py writes, comparisons, and the runner of checks. */
final class Harness {
    static final String CLIENT = "java";
    static final String BOOTSTRAP = System.getenv().getOrDefault("BOOTSTRAP", "127.0.0.1:9092");
    static final String RUN = System.getenv().getOrDefault("RUN", "compat-" + System.currentTimeMillis() / 1000);
    static final Path RECORDS = Path.of(System.getenv().getOrDefault("RECORDS", "target/compat/records"));
    static final String CROSS = System.getenv("CROSS");
    static final String RESTART = System.getenv("BROKER_RESTART");
    static final int LIMIT_S = 60; // for one check
    static final long BASE_MS = 1_700_000_000_000L;
    static final long STEP_MS = 1000;

    /** A record as it is to be sent or read; a null timestamp fits any. */
    record Data(Long timestamp, byte[] key, byte[] value, List<Header> headers) {
        ProducerRecord<byte[], byte[]> to(String topic, Integer partition) {
            return new ProducerRecord<>(topic, partition, timestamp, key, value, headers);
        }
    }

    interface Call {
        void run() throws Exception;
    }

    record Check(String title, Call call) {}

    static byte[] unhexed(String text) {
        return text.equals("-") ? null : HexFormat.of().parseHex(text);
    }

    static Data parse(String line) {
        String[] parts = line.split("\t", -1);
        List<Header> headers = new ArrayList<>();
        for (String pair : parts[3].isEmpty() ? new String[0] : parts[3].split(";")) {
            String[] sides = pair.split("=", -1);
            headers.add(new RecordHeader(new String(unhexed(sides[0]), java.nio.charset.StandardCharsets.UTF_8), unhexed(sides[1])));
        }
        return new Data(parts[0].equals("*") ? null : Long.valueOf(parts[0]), unhexed(parts[1]), unhexed(parts[2]), headers);
    }

    static List<Data> load(Path path) throws IOException {
        return Files.readAllLines(path).stream().map(Harness::parse).toList();
    }

    /** Small records, a second apart. */
    static List<Data> numbered(int count) {
        List<Data> made = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            made.add(new Data(BASE_MS + i * STEP_MS, ("k" + i % 7).getBytes(), ("record " + i + " ").repeat(5).getBytes(), List.of()));
        }
        return made;
    }

    static void expect(Object got, Object wanted, String what) {
        if (!java.util.Objects.equals(got, wanted)) {
            throw new AssertionError(what + ": wanted " + wanted + ", got " + got);
        }
    }

    /** Byte for byte, in order, at contiguous offsets. */
    static void expectRecords(List<ConsumerRecord<byte[], byte[]>> got, List<Data> wanted, long firstOffset) {
        expect(got.size(), wanted.size(), "number of records");
        for (int i = 0; i < got.size(); i++) {
            ConsumerRecord<byte[], byte[]> g = got.get(i);
            Data w = wanted.get(i);
            expect(g.offset(), firstOffset + i, "offset");
            String at = "offset " + g.offset() + ": ";
            if (!Arrays.equals(g.key(), w.key())) throw new AssertionError(at + "another key");
            if (!Arrays.equals(g.value(), w.value())) throw new AssertionError(at + "another value");
            expect(Arrays.asList(g.headers().toArray()), w.headers(), at + "headers");
            if (w.timestamp() != null) expect(g.timestamp(), w.timestamp(), at + "timestamp");
        }
    }

    /** The exception that Kafka's client wraps, or the thing itself. */
    static Throwable cause(Throwable error) {
        return error instanceof ExecutionException && error.getCause() != null ? error.getCause() : error;
    }

    static void expectRefused(Class<? extends Exception> kind, String what, Call call) {
        try {
            call.run();
        } catch (Exception error) {
            if (kind.isInstance(cause(error))) return;
            throw new AssertionError(what + ": wanted " + kind.getSimpleName() + ", got " + cause(error));
        }
        throw new AssertionError(what + " was accepted, wanted " + kind.getSimpleName());
    }

    interface Test {
        boolean holds() throws Exception;
    }

    /** For what a broker does some time after it answered, such as forgetting a deleted topic. */
    static void eventually(String what, Test test) throws Exception {
        for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(15); !test.holds(); Thread.sleep(20)) {
            if (System.nanoTime() > end) throw new AssertionError("not within 15 s: " + what);
        }
    }

    /** Says to the other clients that this topic holds the records of that file. */
    static void leaveForOthers(String topic, Path file) throws IOException {
        if (CROSS != null) {
            Files.writeString(Path.of(CROSS), topic + "=" + file + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }

    /** Runs the checks in turn, prints a line for each, returns how many failed. */
    static int run(List<Check> checks) {
        ExecutorService runner = Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true); // a check that never ends must not keep the process
            return thread;
        });
        int failed = 0;
        for (Check check : checks) {
            long start = System.nanoTime();
            Throwable reason = null;
            try {
                runner.submit(() -> {
                    check.call().run();
                    return null;
                }).get(LIMIT_S, TimeUnit.SECONDS);
            } catch (Exception error) {
                reason = cause(error);
                failed++;
            }
            double seconds = (System.nanoTime() - start) / 1e9;
            System.out.printf("%-4s %-16s %6.2f s  %s%n", reason == null ? "ok" : "FAIL", CLIENT, seconds, check.title());
            if (reason != null) System.out.println("     " + reason);
        }
        return failed;
    }
}
