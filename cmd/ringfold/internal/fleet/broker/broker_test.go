package broker

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// While a server is away, connecting to it is refused, and nobody gets its port.
func TestAway(t *testing.T) {
	s, err := Start(t.TempDir())
	require.NoError(t, err)
	url, address := s.URL(), s.Addr().String()
	for range 2 {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		s.Stop()
		_, err = net.Dial("tcp", address)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.ErrorIs(t, bind(s.Port()), syscall.EADDRINUSE)
		require.NoError(t, s.Restart())
		require.Equal(t, url, s.URL())
	}
	s.Close()
}

// bind takes a port of loopback as the kernel does when it gives one that is free, and gives it back.
func bind(port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: port})
}
