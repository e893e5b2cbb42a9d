package notedtime;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.HashMap;
import org.apache.kafka.common.Uuid;

/** The interceptor's {@link Post} as a writer program of the conformance runner. */
final class JavaWriter {
    private static final long GIVE_UP_MS = (long) (1000
        * Double.parseDouble(System.getenv().getOrDefault("NOTED_TIME_GIVE_UP_S", "30")));

    private final Settings settings;
    private final Topic topic;
    private Post post;
    private final long[] ends = new long[2];

    private JavaWriter() {
        var given = new HashMap<String, Object>();
        for (String name : new String[] {"url", "stream", "writer"})
            given.put("noted.time." + name, System.getenv("NOTED_TIME_" + name.toUpperCase()));
        given.put("noted.time.order", "stamps");
        settings = new Settings(given);
        topic = new Topic(settings.stream, settings, new Topic.Log(settings));
        topic.id = Uuid.ZERO_UUID;
        post = new Post(settings);
    }

    private interface Call {
        void run() throws Exception;
    }

    private String answer(String command, long value, long other) throws InterruptedException {
        if (command.equals("write") || command.equals("ends")) {
            boolean adds = command.equals("write");
            topic.reach(0, ends[0] = (adds ? ends[0] : 0) + value);
            topic.reach(1, ends[1] = (adds ? ends[1] : 0) + other);
            topic.settled = topic.doubts;  // the ends are known
            return "'ok','position':{'0':" + ends[0] + ",'1':" + ends[1] + "}";
        }
        if (topic.stopped) return "'fenced'";
        if (command.equals("join")) {
            post = new Post(settings);
            topic.tookOver = false;
            topic.former = "";
            return perform(() -> post.join(topic));
        }
        if (command.equals("note") && value < topic.noted) return "'refused','code':'invalid_time'";
        if (command.equals("note")) {
            String answer = perform(() -> {
                topic.largest = value;
                topic.fields = "";  // the interceptor does not repeat a note
                post.note(topic);
            });
            boolean late = answer.equals("'accepted'") && value <= topic.lower;
            return late ? answer + ",'late':true" : answer;
        }
        if (command.equals("finish"))
            return perform(() -> post.post(topic, ",'state':'finished'" + topic.position()));
        if (command.equals("heartbeat")) return perform(() -> post.post(topic, ""));
        return command.equals("close") ? "'accepted'" : perform(() -> post.idle(topic));
    }

    /** Repeats a call, at the pace of the interceptor, until its answer is final. */
    private String perform(Call call) throws InterruptedException {
        long until = System.currentTimeMillis() + GIVE_UP_MS;
        for (int failures = 0; ; failures++) {
            int said = topic.said.size();
            try {
                call.run();
                return topic.said.size() > said ? "'excluded'" : "'accepted'";
            } catch (Exception error) {
                String why = String.valueOf(error.getMessage()), code = why.split(":")[0];
                if (topic.stopped && !code.equals("sealed")) return "'fenced'";
                if (!(error instanceof IOException) || !why.startsWith("no controller answers"))
                    return "'refused','code':'" + code + "'";
            }
            long pause = NotedTimeInterceptor.backoff(failures, post);
            if (System.currentTimeMillis() + pause > until) return "'gave up'";
            Thread.sleep(pause);
        }
    }

    public static void main(String[] none) throws Exception {
        var writer = new JavaWriter();
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null; ) {
            String[] words = line.trim().split(" ");
            long value = words.length > 1 ? Long.parseLong(words[1]) : 0;
            long other = words.length > 2 ? Long.parseLong(words[2]) : 0;
            String answer = "{'answer':" + writer.answer(words[0], value, other) + "}";
            System.out.println(answer.replace('\'', '"'));
            if (words[0].equals("close")) System.exit(0);
        }
        Runtime.getRuntime().halt(1);  // a crash
    }
}
