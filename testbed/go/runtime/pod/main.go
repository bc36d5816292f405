// The program of every container of the test bed, pause containers included: without arguments it waits to be ended.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", "", "address to answer probes at; empty: none")
	ready := flag.Duration("ready", 0, "answers 503 for so long after the start")
	term := flag.Duration("term", 0, "goes on for so long after SIGTERM")
	flag.Parse()
	// PID 1 of its container: a signal that is not asked for is ignored.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if *listen != "" {
		go serve(*listen, time.Now().Add(*ready))
	}
	fmt.Println(<-signals)
	time.Sleep(*term)
}

func serve(address string, from time.Time) {
	answer := func(to http.ResponseWriter, _ *http.Request) {
		if time.Now().Before(from) {
			to.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	if err := http.ListenAndServe(address, http.HandlerFunc(answer)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
