// Callbacks counts the events of a BPF program in three ways: channels.go uses libbpfgo's channels, dropin.go is the same with one
// line replaced, and folds.go reads events in place, without channels.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/aquasecurity/libbpfgo"
)

//go:embed callbacks.bpf.o
var object []byte // outputs an event per system call of one process

func main() {
	duration := flag.Duration("duration", 3*time.Second, "how long each way runs")
	flag.Parse()
	libbpfgo.SetLoggerCbs(libbpfgo.Callbacks{Log: func(int, string) {}}) // errors say as much
	interrupted, _ := signal.NotifyContext(context.Background(), os.Interrupt)
	for i := 0; i < len(names) && interrupted.Err() == nil; i++ {
		traced := exec.Command("dd", "if=/dev/zero", "of=/dev/null", "bs=1M") // many system calls
		traced.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // if this ends by log.Fatal
		must(0, traced.Start())
		module := must(libbpfgo.NewModuleFromBufferArgs(libbpfgo.NewModuleArgs{BPFObjBuff: object, SkipMemlockBump: true}))
		must(0, module.InitGlobalVariable("pid", uint32(traced.Process.Pid)))
		must(0, module.BPFLoadObject())
		ctx, stop := context.WithTimeout(interrupted, *duration)
		c := ways[i](ctx, module)
		stop()
		module.Close()
		_ = traced.Process.Kill() // Ctrl-C may have ended it
		_ = traced.Wait()
		fmt.Printf("%-8s %9d received %9d lost\n", names[i], c.received, c.lost)
	}
}

var names = []string{"channels", "dropin", "folds"}
var ways = []func(context.Context, *libbpfgo.Module) counts{channels, dropin, folds}

type counts struct{ received, lost uint64 }

// add counts an event. It keeps nothing of data.
func (c *counts) add(data []byte) error { c.received++; return nil }

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
