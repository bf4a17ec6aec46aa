// Writes one batch for each codec with the classes that Kafka's own producer uses, and murmur2 of some keys.
// How to run, with the kafka-clients jar and its dependencies in lib/: java -cp 'lib/*' Generate.java OUTPUT_DIRECTORY
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Utils;

public class Generate {
    static byte[] utf8(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] pattern(int length) {
        byte[] bytes = new byte[length];
        for (int i = 0; i < length; i++) bytes[i] = (byte) (i % 251);
        return bytes;
    }

    static byte[] batch(CompressionType type, TimestampType timestamps, boolean transactional) {
        long base = 1_700_000_000_000L;
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1024), RecordBatch.MAGIC_VALUE_V2,
            Compression.of(type).build(), timestamps, 0L, base + 5000, 1234L, (short) 3, 17, transactional, -1);
        Header[] none = new Header[0];
        Header[] some = {
            new RecordHeader("a", utf8("1")), new RecordHeader("a", (byte[]) null), new RecordHeader("ünï", new byte[0])};
        builder.append(base, utf8("k1"), utf8("v1"), none);
        builder.append(base + 5, null, utf8("only a value"), some);
        builder.append(base - 3, utf8("tombstone"), null, none);
        builder.append(base + 1000, new byte[0], pattern(type == CompressionType.NONE ? 300 : 100_000), none);
        ByteBuffer buffer = builder.build().buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    public static void main(String[] args) throws Exception {
        Path out = Path.of(args[0]);
        for (CompressionType type : CompressionType.values()) {
            if (type.id < 0) continue;
            Files.write(out.resolve("java-" + type.name + ".batch"), batch(type, TimestampType.CREATE_TIME, false));
        }
        Files.write(out.resolve("java-append-time.batch"), batch(CompressionType.GZIP, TimestampType.LOG_APPEND_TIME, true));
        List<String> lines = new ArrayList<>();
        for (String key : List.of("", "a", "ab", "abc", "abcd", "21", "foobar", "a-little-bit-long-string", "größe",
            "\u0000\u007f\u00ff", "0123456789abcdef0123456789abcdef"))
            lines.add(java.util.HexFormat.of().formatHex(utf8(key)) + " " + Utils.murmur2(utf8(key)) + " "
                + Utils.toPositive(Utils.murmur2(utf8(key))) % 24);
        Files.write(out.resolve("java-murmur2.txt"), lines);
    }
}
