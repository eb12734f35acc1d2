package simulate

import "iter"

// coroutine is a function that the scheduler resumes, and that pauses wherever others may go on.
type coroutine struct {
	next    func() (struct{}, bool)
	end     func()
	yield   func(struct{}) bool
	running bool
	stopped bool // to come to its end without a pause
	ended   bool
}

func newCoroutine(f func()) *coroutine {
	c := &coroutine{}
	c.next, c.end = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		f()
		c.ended = true
	})
	return c
}

// resume lets it run until it pauses.
func (c *coroutine) resume() {
	c.running = true
	c.next()
	c.running = false
}

// pause ends resume. It is for the coroutine itself, and does nothing if that is stopped.
func (c *coroutine) pause() {
	if !c.stopped && !c.yield(struct{}{}) {
		c.stopped = true
	}
}

func (c *coroutine) stop() {
	c.stopped, c.running = true, true
	c.end()
	c.running = false
}
