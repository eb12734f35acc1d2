//go:build ignore

// Counts how many requests coroot-node-agent's tracer can match to their connections. One child makes
// as many HTTP requests as REQUESTS says to another one, a connection each, four at a time. (The
// agent's packages parse the arguments.)
//
// A request counts as matched if its connection is the latest that was opened with its descriptor,
// as in Container.onL7Request of the agent.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coroot/coroot-node-agent/common"
	"github.com/coroot/coroot-node-agent/ebpftracer"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

func main() {
	requests, err := strconv.Atoi(os.Getenv("REQUESTS"))
	check(err)
	switch task, address, _ := strings.Cut(os.Getenv("TASK"), " "); task {
	case "serve":
		check(serve())
	case "load":
		check(load(address, requests))
	default:
		check(match(requests))
	}
}

func match(requests int) error {
	var name unix.Utsname
	check(unix.Uname(&name))
	check(common.SetKernelVersion(unix.ByteSliceToString(name.Release[:])))
	ns, err := netns.Get()
	check(err)
	tracer := ebpftracer.NewTracer(ns, ns, false)
	events := make(chan ebpftracer.Event, 10000) // as in the agent's registry
	check(tracer.Run(events))
	defer tracer.Close() // or it is collected, and its links close

	for quiet := false; !quiet; { // after the processes and sockets that exist
		select {
		case <-events:
		case <-time.After(time.Second):
			quiet = true
		}
	}

	server := child("serve")
	address, err := server.StdoutPipe()
	check(err)
	check(server.Start())
	defer server.Process.Kill()
	at, err := bufio.NewReader(address).ReadString('\n')
	check(err)
	client := child("load " + strings.TrimSpace(at))
	before, began := cpu(), time.Now()
	check(client.Start())
	ended := make(chan error, 1)
	go func() { ended <- client.Wait() }()

	type socket struct {
		pid uint32
		fd  uint64
	}
	open := map[socket]uint64{} // when
	var delivered, matched int
	var took time.Duration
	for quiet := time.NewTimer(time.Hour); ; {
		select {
		case e := <-events:
			at := socket{e.Pid, e.Fd}
			switch {
			case e.Pid != uint32(client.Process.Pid):
			case e.Type == ebpftracer.EventTypeConnectionOpen:
				open[at] = e.Timestamp
			case e.Type == ebpftracer.EventTypeL7Request:
				delivered++
				if open[at] == e.Timestamp {
					matched++
				}
			}
			if took != 0 {
				quiet.Reset(time.Second)
			}
		case err := <-ended:
			check(err)
			took = time.Since(began)
			quiet.Reset(time.Second)
		case <-quiet.C:
			_, err = fmt.Printf("requests %d delivered %d matched %d seconds %.2f cpu_ms %d\n", requests, delivered, matched, took.Seconds(), (cpu() - before).Milliseconds())
			return err
		}
	}
}

func child(task string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env, c.Stderr = append(os.Environ(), "TASK="+task), os.Stderr
	return c
}

func serve() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))
}

func load(address string, requests int) error {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range requests / 4 {
				r, err := client.Get("http://" + address)
				check(err)
				_, err = io.Copy(io.Discard, r.Body)
				check(err)
				r.Body.Close()
			}
		})
	}
	wg.Wait()
	return nil
}

// cpu is this process's time.
func cpu() time.Duration {
	var u unix.Rusage
	check(unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
