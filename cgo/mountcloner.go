//go:build linux && cgo

package libbpf

/*
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// Of kernels newer than some C libraries; the numbers are the same on all architectures that Go has, but Alpha's.
#ifndef SYS_open_tree
#define SYS_open_tree 428
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define RINGFOLD_OPEN_TREE_CLONE 1
#define RINGFOLD_CLOSE_RANGE_UNSHARE 2

enum { RINGFOLD_IDLE, RINGFOLD_START, RINGFOLD_CLOSE, RINGFOLD_HOLD, RINGFOLD_QUIT };

struct ringfold_cloner {
	pthread_t thread;
	int request;  // a futex: what the thread is to do, IDLE once it has
	int sleeping; // the caller sleeps until then
	int err;      // of the latest request: 0 or an errno
	const char *call;
	char path[];
};

static void ringfold_sleep(int *word, int value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void ringfold_wake(int *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

// ringfold_clone clones the mount and dissolves the clone. Held once more, it is dissolved only after the answer, which
// then has waited for nothing.
static void ringfold_clone(struct ringfold_cloner *c, int hold, int *held)
{
	int fd;

	c->err = 0;
	c->call = "open_tree";
	fd = syscall(SYS_open_tree, AT_FDCWD, c->path, RINGFOLD_OPEN_TREE_CLONE | O_CLOEXEC);
	if (fd < 0) {
		c->err = errno;
		return;
	}
	if (hold) {
		c->call = "dup";
		*held = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (*held < 0)
			c->err = errno;
	}
	if (close(fd) && !c->err) {
		c->call = "close";
		c->err = errno;
	}
}

static void *ringfold_clones(void *arg)
{
	struct ringfold_cloner *c = arg;
	int request = RINGFOLD_IDLE, held = -1;

	pthread_setname_np(pthread_self(), "ringfold");
	c->call = "close_range";
	// A table of its own, and empty: no fork of another thread copies what is opened here.
	if (syscall(SYS_close_range, 0U, ~0U, RINGFOLD_CLOSE_RANGE_UNSHARE)) {
		c->err = errno;
		request = RINGFOLD_QUIT;
	}
	for (;;) {
		// In this order, as the caller does the opposite: either sees what the other has stored.
		__atomic_store_n(&c->request, RINGFOLD_IDLE, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&c->sleeping, __ATOMIC_SEQ_CST))
			ringfold_wake(&c->request);
		if (request == RINGFOLD_QUIT)
			return NULL;
		if (held >= 0)
			close(held);
		held = -1;
		while ((request = __atomic_load_n(&c->request, __ATOMIC_ACQUIRE)) == RINGFOLD_IDLE)
			ringfold_sleep(&c->request, RINGFOLD_IDLE);
		if (request != RINGFOLD_QUIT)
			ringfold_clone(c, request == RINGFOLD_HOLD, &held);
	}
}

// ringfold_answer waits until the thread has done what was asked of it. Looking on for a while before sleeping has not
// made it any faster.
static int ringfold_answer(struct ringfold_cloner *c, int request)
{
	__atomic_store_n(&c->sleeping, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&c->request, __ATOMIC_SEQ_CST) != RINGFOLD_IDLE)
		ringfold_sleep(&c->request, request);
	__atomic_store_n(&c->sleeping, 0, __ATOMIC_RELAXED);
	return c->err;
}

static int ringfold_ask(struct ringfold_cloner *c, int request)
{
	__atomic_store_n(&c->request, request, __ATOMIC_RELEASE);
	ringfold_wake(&c->request);
	return ringfold_answer(c, request);
}

static void ringfold_cloner_free(struct ringfold_cloner *c)
{
	__atomic_store_n(&c->request, RINGFOLD_QUIT, __ATOMIC_RELEASE);
	ringfold_wake(&c->request);
	pthread_join(c->thread, NULL);
	free(c);
}

// ringfold_cloner_new returns NULL with errno set, and what failed in *call.
static struct ringfold_cloner *ringfold_cloner_new(const char *path, const char **call)
{
	struct ringfold_cloner *c = calloc(1, sizeof(*c) + strlen(path) + 1);
	sigset_t all, before;
	int err;

	*call = "pthread_create";
	if (!c)
		return NULL;
	strcpy(c->path, path);
	c->request = RINGFOLD_START;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); // the thread inherits that
	err = pthread_create(&c->thread, NULL, ringfold_clones, c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		free(c);
		errno = err;
		return NULL;
	}
	err = ringfold_answer(c, RINGFOLD_START);
	if (err) {
		*call = c->call;
		ringfold_cloner_free(c);
		errno = err;
		return NULL;
	}
	return c;
}
*/
import "C"

import (
	"sync"
	"syscall"
	"unsafe"
)

// MountCloner clones the mount that a path is on, alone and attached nowhere, with open_tree(OPEN_TREE_CLONE), and has the
// kernel dissolve the clone by closing it. It does so on a thread of C's that has a descriptor table of its own, as only the last
// close of a descriptor dissolves anything: one that a fork has copied meanwhile, by any thread of this process and
// any library, would not be. No thread of Go's runtime can have a table of its own, as the runtime uses its
// descriptors on all of them.
type MountCloner struct {
	mu sync.Mutex // one request at a time
	c  *C.struct_ringfold_cloner
}

// NewMountCloner starts the thread, which handles no signals. It takes close_range(CLOSE_RANGE_UNSHARE), of Linux 5.9.
func NewMountCloner(path string) (*MountCloner, error) {
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	var call *C.char
	c, err := C.ringfold_cloner_new(cpath, &call)
	if c == nil {
		return nil, failed(C.GoString(call), err)
	}
	return &MountCloner{c: c}, nil
}

// Clone calls open_tree and close, and blocks for both: the kernel dissolves the mount within the last close. If held,
// the descriptor has a duplicate, which is closed only after Clone has returned. It is safe for concurrent use.
func (m *MountCloner) Clone(held bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	request := C.int(C.RINGFOLD_CLOSE)
	if held {
		request = C.RINGFOLD_HOLD
	}
	if err := C.ringfold_ask(m.c, request); err != 0 {
		return &Error{Call: C.GoString(m.c.call), Errno: syscall.Errno(err)}
	}
	return nil
}

// Close ends the thread, and blocks until it is gone. Nothing may be called afterwards.
func (m *MountCloner) Close() {
	C.ringfold_cloner_free(m.c)
	m.c = nil
}
