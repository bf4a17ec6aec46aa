package compat;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's own command line tools one after another in this one JVM: starting one takes a second of CPU, a tool a few
 * milliseconds. Each line of standard input is a tool's class and its arguments, parted by tabs. The answer is a line "CODE
 * OUT_BYTES ERR_BYTES", then what the tool wrote to standard output, then what it wrote to standard error.
 */
public final class Tools {
    private static final PrintStream ANSWERS = System.out;
    private static final PrintStream ERRORS = System.err;

    private Tools() {}

    /** Ends a tool where it wanted to end its process. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1;
    }

    /** What a tool writes until it exits: what its own handlers make of the error that ends it is written by no process. */
    private static final class Captured {
        private final ByteArrayOutputStream out = new ByteArrayOutputStream();
        private final ByteArrayOutputStream err = new ByteArrayOutputStream();
        private Integer code;
        private byte[] outAtExit;
        private byte[] errAtExit;

        synchronized void exit(int status) {
            if (code != null) return;
            code = status;
            outAtExit = out.toByteArray();
            errAtExit = err.toByteArray();
        }

        void run(String[] line) throws Exception {
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            Exit.setExitProcedure((status, message) -> {
                System.out.flush();
                exit(status);
                throw new Exited();
            });
            try {
                String[] arguments = Arrays.copyOfRange(line, 1, line.length);
                if (line[0].equals("produce")) produce(arguments);
                else if (line[0].equals("join")) Reader.join(arguments);
                else if (line[0].equals("leave")) Reader.leave(arguments);
                else Class.forName(line[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (InvocationTargetException ended) {
                if (!(ended.getCause() instanceof Exited)) throw ended;
            }
            exit(0);
        }

        void answer() {
            ANSWERS.printf("%d %d %d%n", code, outAtExit.length, errAtExit.length);
            ANSWERS.writeBytes(outAtExit);
            ANSWERS.writeBytes(errAtExit);
            ANSWERS.flush();
        }
    }

    /** TOPIC PARTITION FIRST_TIMESTAMP STEP COUNT: records in batches of one, so that sizes and offsets are the same anywhere. */
    private static void produce(String[] arguments) throws Exception {
        int partition = Integer.parseInt(arguments[1]);
        long first = Long.parseLong(arguments[2]);
        long step = Long.parseLong(arguments[3]);
        Map<String, Object> settings = Map.of("bootstrap.servers", Harness.BOOTSTRAP);
        var bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            for (int i = 0; i < Integer.parseInt(arguments[4]); i++) {
                byte[] key = ("key " + i).getBytes(StandardCharsets.UTF_8);
                byte[] value = ("record " + i).getBytes(StandardCharsets.UTF_8);
                Harness.Data record = new Harness.Data(first + i * step, key, value, List.of());
                producer.send(record.to(arguments[0], partition)).get();
            }
        }
    }

    public static void main(String[] none) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Captured captured = new Captured();
            try {
                captured.run(line.split("\t"));
            } catch (Exception error) {
                error.printStackTrace(ERRORS);
                System.exit(1);
            }
            captured.answer();
        }
        System.exit(0); // what tools may leave running keeps nothing
    }
}
