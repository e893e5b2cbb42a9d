package notedtime;

import java.lang.System.Logger.Level;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.Uuid;

/** The records in flight to a topic, and its acknowledged offsets. The object is the lock. */
final class Topic {
    static final long NEVER = Long.MIN_VALUE, MS = 1_000_000;
    private static final int LINES_A_MINUTE = 20, LINE = 1_000;

    final String name, stream;
    final TreeMap<Long, long[]> inFlight = new TreeMap<>();  // number, and when the last was sent
    long lost, dropped = NEVER;  // failed records still in flight; largest removed timestamp
    long largest = NEVER, claimed = NEVER, noted = NEVER, lower = NEVER;
    long newest = NEVER;  // largest timestamp in the topic when looked up
    long lateBelow = Long.MAX_VALUE, late, leastLate = Long.MAX_VALUE, mostLate = NEVER;
    volatile boolean stopped;
    volatile int doubts = 1;
    final Set<String> said = ConcurrentHashMap.newKeySet();
    // only the thread uses the following fields
    final Set<String> troubles = new HashSet<>();
    Uuid id;
    String fields = "", former = "";  // the sessions that lost the name to this one
    boolean tookOver, joined, refused, declares = true;
    int settled, failures;
    long due = System.nanoTime(), lookAt = due;

    private final Settings settings;
    private final Log log;
    private long[] latest = {0, 0}, ends = {};
    private long latestStamp;

    Topic(String name, Settings settings, Log log) {
        this.name = name;
        this.settings = settings;
        this.log = log;
        stream = settings.stream.replace("{topic}", name);
        stopped = !settings.wanted.matcher(name).matches();
    }

    void sent(long stamp) {
        if (stamp != latestStamp || latest[0] == 0) {  // most are in the same ms as the last
            latest = inFlight.computeIfAbsent(stamp, any -> new long[2]);
            latestStamp = stamp;
        }
        latest[0]++;
        latest[1] = System.nanoTime();
        if (stamp > largest) largest = stamp;
        countIfLate(stamp);
    }

    private void countIfLate(long stamp) {
        if (stamp >= lateBelow) return;
        late++;
        leastLate = Math.min(leastLate, stamp);
        mostLate = Math.max(mostLate, stamp);
    }

    /** Subtracts late records that were reported, or proved not to be late. */
    void reported(long records) {
        late -= records;
        if (late > 0) return;
        leastLate = Long.MAX_VALUE;
        mostLate = NEVER;
    }

    /** Counts a record as written. Returns false if no record with its timestamp was sent. */
    boolean arrived(int partition, long offset, long stamp) {
        if (offset < 0) doubts++;  // unknown if the first attempt had succeeded before a retry
        else reach(partition, offset + 1);
        if (landed(stamp)) return true;
        if (stamp > dropped) return false;
        lost++;  // it was removed instead of another record
        countIfLate(stamp);
        return true;
    }

    boolean landed(long stamp) {
        long[] records = inFlight.get(stamp);
        if (records != null && --records[0] == 0) inFlight.remove(stamp);
        return records != null;
    }

    /** Removes records in flight for longer than a delivery can take, if some have failed. */
    synchronized void dropLost() {
        long now = System.nanoTime();
        for (var all = inFlight.entrySet().iterator(); lost > 0 && all.hasNext(); ) {
            var each = all.next();
            long[] records = each.getValue();
            if (now - records[1] < settings.longest * MS) continue;
            dropped = Math.max(dropped, each.getKey());
            lost = Math.max(0, lost - records[0]);
            records[0] = 0;
            all.remove();
            doubts++;  // the record may be written if only the acknowledgement was lost
        }
    }

    void reach(int partition, long end) {
        if (partition >= ends.length) ends = Arrays.copyOf(ends, partition + 1);
        if (end > ends[partition]) ends[partition] = end;
    }

    /** Returns the time below which all records are written, or NEVER if it is unknown. */
    long time(long clock) {
        long time = settings.byStamps ? largest : clock;
        if (time != NEVER) time -= settings.delay;
        if (!inFlight.isEmpty()) time = Math.min(time, inFlight.firstKey());
        return Math.max(time, claimed);
    }

    void claim(long time) { lateBelow = Math.max(claimed = time, lower); }

    synchronized void stop(String why) {
        if (!stopped) say(Level.ERROR, "no more is noted: " + why);
        stopped = true;
        inFlight.clear();
    }

    synchronized boolean isDone() { return !stopped && inFlight.isEmpty(); }

    String position() {
        var text = new StringJoiner(",", ",'position':{", "}");
        for (int each = 0; each < ends.length; each++) text.add("'" + each + "':" + ends[each]);
        return text.toString();
    }

    void say(Level level, String what) { log.say(level, name, what); }

    /** The log of a producer. It limits the lines per minute, except errors. */
    static final class Log {
        private static final System.Logger LOG = System.getLogger("noted_time.interceptor");
        private final Settings settings;
        private long minute, lines;

        Log(Settings settings) { this.settings = settings; }

        private synchronized void say(Level level, String topic, String what) {
            if (level != Level.ERROR) {
                long now = System.nanoTime() / (60_000 * MS);
                lines = now == minute ? lines + 1 : 1;
                minute = now;
                if (lines > LINES_A_MINUTE) return;
                if (lines == LINES_A_MINUTE)
                    what += " (no more warnings are logged in this minute)";
            }
            LOG.log(level, "noted time: writer " + settings.writer + " of " + topic + ": "
                + what.substring(0, Math.min(what.length(), LINE)).replaceAll("\\p{Cntrl}", " "));
        }

        static void nothing(String client, Object why) {
            LOG.log(Level.ERROR, "noted time: nothing is noted by producer " + client + ": " + why);
        }
    }
}
