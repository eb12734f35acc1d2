//go:build ignore

// Speaks TLS with itself: 4 connections, each with as many requests and answers as the argument says.
package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

func main() {
	requests, pause := must(strconv.Atoi(os.Args[1])), must(time.ParseDuration(os.Args[2]))
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	l := must(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}},
	}))
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() { answer(must(l.Accept()), requests) })
		wg.Go(func() {
			c := must(tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true}))
			lines := bufio.NewReader(c)
			for i := range requests {
				must(fmt.Fprintf(c, "request %d/%d\n", n, i))
				must(lines.ReadString('\n'))
				time.Sleep(pause)
			}
		})
	}
	wg.Wait()
}

func answer(c net.Conn, requests int) {
	lines := bufio.NewReader(c)
	for range requests {
		must(fmt.Fprint(c, "answer to ", must(lines.ReadString('\n'))))
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
