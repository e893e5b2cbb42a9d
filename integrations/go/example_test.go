package notedtime_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"notedtime"
)

func ExampleWriter() {
	controller := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"refused": 0, "results": [{"status": "accepted", "lower": null}]}`)
	})) // a stand-in: yours is started by `noted-time serve`
	defer controller.Close()
	ctx := context.Background()

	w, err := notedtime.NewWriter(ctx, notedtime.Config{
		URL: controller.URL, Stream: "receipts", Writer: "till-3",
	})
	if err != nil {
		log.Fatal(err)
	}
	end := w.Position()[2] // or look up the end of segment 2 in the log, now that the writer joined
	for hour := range 3 {
		end++ // write an event, and make it durable
		noted := time.Date(2013, 1, 1, 9+hour, 59, 0, 0, time.UTC)
		if _, err := w.Note(ctx, noted, notedtime.Position{2: end}); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := w.Finish(ctx, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.Position())
	// Output: map[2:3]
}
