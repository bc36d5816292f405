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
	exit := flag.Duration("exit", 0, "ends by itself after so long; 0: never")
	code := flag.Int("code", 0, "what it ends with")
	flag.Parse()
	// PID 1 of its container: a signal that is not asked for is ignored.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if *listen != "" {
		go serve(*listen, time.Now().Add(*ready))
	}
	var done <-chan time.Time
	if *exit > 0 {
		done = time.After(*exit)
	}
	select {
	case <-done:
		fmt.Println("done")
	case got := <-signals:
		fmt.Println(got)
		time.Sleep(*term)
	}
	os.Exit(*code)
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
