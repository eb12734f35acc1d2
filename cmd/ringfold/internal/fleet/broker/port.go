package broker

import (
	"os"

	"golang.org/x/sys/unix"
)

// port is one of loopback that is kept for a server, also while that is away: it is bound, and nobody listens at it. So connecting to it
// is refused, nobody gets it as one that is free, and a server may bind it too: as all listeners of Go's have SO_REUSEADDR, and so has this.
type port struct{ fd, number int }

func reserve() (port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return port{}, os.NewSyscallError("socket", err)
	}
	p := port{fd: fd}
	err = os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	if err == nil {
		err = os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	}
	if err == nil {
		var at unix.Sockaddr
		if at, err = unix.Getsockname(fd); err == nil {
			p.number = at.(*unix.SockaddrInet4).Port
			return p, nil
		}
	}
	p.release()
	return port{}, err
}

func (p port) release() { unix.Close(p.fd) }
