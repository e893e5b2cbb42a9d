package notedtime;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Collects the text of an answer, limited to 64 kB and to the time for one answer. */
final class Answer implements HttpResponse.BodySubscriber<String> {
    static final String NUMBER = "(-?+\\d++)", WORD = "'(\\w{1,64}+)'", ID = "'([\\w-]{1,64}+)'";
    private static final int BYTES = 65_536;

    private final CompletableFuture<String> text = new CompletableFuture<>();
    private final ByteArrayOutputStream read = new ByteArrayOutputStream();

    Answer() { text.orTimeout(Settings.ANSWER_MS, TimeUnit.MILLISECONDS); }

    @Override public CompletionStage<String> getBody() { return text; }

    @Override public void onSubscribe(Flow.Subscription body) {
        text.whenComplete((any, error) -> { if (error != null) body.cancel(); });
        body.request(Long.MAX_VALUE);
    }

    @Override public void onNext(List<ByteBuffer> pieces) {
        for (ByteBuffer piece : pieces) {
            if (read.size() + piece.remaining() > BYTES)
                text.completeExceptionally(new IOException("its answer is over 64 kB"));
            if (text.isDone()) return;
            byte[] bytes = new byte[piece.remaining()];
            piece.get(bytes);
            read.writeBytes(bytes);
        }
    }

    @Override public void onError(Throwable error) { text.completeExceptionally(error); }

    @Override public void onComplete() { text.complete(read.toString(StandardCharsets.UTF_8)); }

    /** Returns the first match. Patterns must not backtrack, because an answer may be any text. */
    static String found(String pattern, String text, String otherwise) {
        String regex = pattern.replace("':", "\":\\s*+").replace('\'', '"');
        Matcher matcher = Pattern.compile(regex, Pattern.DOTALL).matcher(text);
        return matcher.find() ? matcher.group(1) : otherwise;
    }

    static long number(String pattern, String text, long otherwise) {
        return Long.parseLong(found(pattern, text, "" + otherwise));
    }
}
