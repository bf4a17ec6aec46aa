package compat;

import java.util.BitSet;
import java.util.HexFormat;

/** What is known of a key, as text: how often it was counted, and which of its numbers were seen, a bit for each. */
final class Seen {
    static final String NOTHING = "0 ";

    private Seen() {}

    static String add(String seen, int number) {
        int space = seen.indexOf(' ');
        long count = Long.parseLong(seen.substring(0, space)) + 1;
        BitSet numbers = BitSet.valueOf(HexFormat.of().parseHex(seen, space + 1, seen.length()));
        numbers.set(number);
        return count + " " + HexFormat.of().formatHex(numbers.toByteArray());
    }
}
