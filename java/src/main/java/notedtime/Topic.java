package notedtime;

import java.lang.System.Logger.Level;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.Uuid;

/** The records in flight to a topic, and its acknowledged offsets. The object is the lock. */
final class Topic {
    /** The time of no record. */
    static final long NEVER = Long.MIN_VALUE;
    /** Nanoseconds. */
    static final long MS = 1_000_000;
    private static final int LINES_A_MINUTE = 20;
    private static final int MOST_CHARACTERS = 1_000;

    final String name;
    final String stream;
    /** The records in flight by their timestamp. */
    final TreeMap<Long, Records> inFlight = new TreeMap<>();
    long lostCount;  // failed records still in flight
    long largestDropped = NEVER;  // timestamp of a record that was removed without an answer
    long largestSent = NEVER;  // timestamp
    long claimedTime = NEVER;  // of a note that was sent
    long notedTime = NEVER;  // of a note that was accepted
    long lower = NEVER;  // of the stream
    long newestInTopic = NEVER;  // timestamp when the topic was looked up
    long lateBelow = Long.MAX_VALUE;
    long lateCount;  // records that are not reported yet
    long leastLate = Long.MAX_VALUE;  // timestamp of these
    long mostLate = NEVER;  // likewise
    volatile boolean isStopped;
    volatile int doubts = 1;  // how often the ends became unknown
    final Set<String> loggedKinds = ConcurrentHashMap.newKeySet();  // of messages to log once
    // only the thread uses the following fields
    final Set<String> loggedTroubles = new HashSet<>();  // since the last success
    Uuid id;
    String lastFields = "";  // of the last note
    String formerSessions = "";  // those that lost the name to this one
    boolean hasTakenOver;
    boolean isJoined;
    boolean isRefused;  // a person must act
    boolean declaresMaxTime = true;  // an older controller refuses it
    int settledDoubts;  // the doubts when the ends were looked up
    int failures;
    long dueAt = System.nanoTime();
    long lookDueAt = dueAt;

    private final Settings settings;
    private final Log log;
    private Records latestRecords = new Records();  // those in flight with the latest timestamp
    private long latestStamp;
    private long[] ends = {};  // by partition

    /** The records in flight with the same timestamp. */
    static final class Records {
        private long count;
        private long lastSentAt;
    }

    Topic(String name, Settings settings, Log log) {
        this.name = name;
        this.settings = settings;
        this.log = log;
        stream = settings.stream.replace("{topic}", name);
        isStopped = !settings.wantedTopics.matcher(name).matches();
    }

    void recordSent(long stamp) {
        if (stamp != latestStamp || latestRecords.count == 0) {  // most are in the ms of the last
            latestRecords = inFlight.computeIfAbsent(stamp, newStamp -> new Records());
            latestStamp = stamp;
        }
        latestRecords.count++;
        latestRecords.lastSentAt = System.nanoTime();
        if (stamp > largestSent) largestSent = stamp;
        countIfLate(stamp);
    }

    private void countIfLate(long stamp) {
        if (stamp >= lateBelow) return;
        lateCount++;
        leastLate = Math.min(leastLate, stamp);
        mostLate = Math.max(mostLate, stamp);
    }

    /** Subtracts late records that were reported, or proved not to be late. */
    void subtractLate(long count) {
        lateCount -= count;
        if (lateCount > 0) return;
        leastLate = Long.MAX_VALUE;
        mostLate = NEVER;
    }

    /** Counts a record as written. Returns false if no record with its timestamp was sent. */
    boolean recordArrival(int partition, long offset, long stamp) {
        if (offset < 0) {
            doubts++;  // unknown if the first attempt had succeeded before a retry
        } else {
            reach(partition, offset + 1);
        }
        if (removeFromFlight(stamp)) return true;
        if (stamp > largestDropped) return false;
        lostCount++;  // it was removed instead of another record
        countIfLate(stamp);
        return true;
    }

    /** Removes a record that was not delivered, and may still be sent again. */
    void dropFailed(long stamp) {
        if (removeFromFlight(stamp)) largestDropped = Math.max(largestDropped, stamp);
    }

    /** Returns whether a record with this timestamp was in flight. */
    private boolean removeFromFlight(long stamp) {
        Records records = inFlight.get(stamp);
        if (records == null) return false;
        records.count--;
        if (records.count == 0) inFlight.remove(stamp);
        return true;
    }

    /** Removes records in flight for longer than a delivery can take, if some have failed. */
    synchronized void dropLost() {
        long now = System.nanoTime();
        Iterator<Map.Entry<Long, Records>> entries = inFlight.entrySet().iterator();
        while (lostCount > 0 && entries.hasNext()) {
            Map.Entry<Long, Records> entry = entries.next();
            Records records = entry.getValue();
            if (now - records.lastSentAt < settings.longestDeliveryMs * MS) continue;
            largestDropped = Math.max(largestDropped, entry.getKey());
            lostCount = Math.max(0, lostCount - records.count);
            records.count = 0;
            entries.remove();
            doubts++;  // the record may be written if only the acknowledgement was lost
        }
    }

    /** Raises the end of a partition, which is exclusive. */
    void reach(int partition, long end) {
        if (partition >= ends.length) ends = Arrays.copyOf(ends, partition + 1);
        if (end > ends[partition]) ends[partition] = end;
    }

    /** Returns the time below which all records are written, or NEVER if it is unknown. */
    long findTime(long clock) {
        long time = settings.ordersByStamps ? largestSent : clock;
        if (time != NEVER) time -= settings.delayMs;
        if (!inFlight.isEmpty()) time = Math.min(time, inFlight.firstKey());
        return Math.max(time, claimedTime);
    }

    /** Records the time of a note. From now on, records below it are late. */
    void claim(long time) {
        claimedTime = time;
        lateBelow = Math.max(time, lower);
    }

    synchronized void stop(String reason) {
        if (!isStopped) say(Level.ERROR, "no more is noted: " + reason);
        isStopped = true;
        inFlight.clear();
    }

    synchronized boolean isDone() { return !isStopped && inFlight.isEmpty(); }

    String buildPosition() {
        var text = new StringJoiner(",", ",'position':{", "}");
        for (int partition = 0; partition < ends.length; partition++)
            text.add("'" + partition + "':" + ends[partition]);
        return text.toString();
    }

    void say(Level level, String message) { log.say(level, name, message); }

    /** The log of a producer. It limits the lines per minute, except errors. */
    static final class Log {
        private static final System.Logger LOG = System.getLogger("noted_time.interceptor");
        private final Settings settings;
        private long lastMinute;
        private long lineCount;  // in the last minute

        Log(Settings settings) { this.settings = settings; }

        private synchronized void say(Level level, String topic, String message) {
            String line = message;
            if (level != Level.ERROR) {
                long minute = System.nanoTime() / (60_000 * MS);
                if (minute != lastMinute) lineCount = 0;
                lastMinute = minute;
                lineCount++;
                if (lineCount > LINES_A_MINUTE) return;
                if (lineCount == LINES_A_MINUTE)
                    line += " (no more warnings are logged in this minute)";
            }
            line = line.substring(0, Math.min(line.length(), MOST_CHARACTERS));
            LOG.log(level, "noted time: writer " + settings.writer + " of " + topic + ": "
                + line.replaceAll("\\p{Cntrl}", " "));
        }

        static void sayNothingIsNoted(String client, Object reason) {
            LOG.log(Level.ERROR,
                "noted time: nothing is noted by producer " + client + ": " + reason);
        }
    }
}
