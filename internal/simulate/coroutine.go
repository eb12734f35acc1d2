package simulate

import "iter"

// coroutine is a function that the scheduler resumes. It pauses wherever other actors may run.
type coroutine struct {
	next    func() (struct{}, bool)
	end     func()
	yield   func(struct{}) bool
	running bool
	stopped bool // it must finish without a pause
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

// resume runs the coroutine until it pauses.
func (c *coroutine) resume() {
	c.running = true
	c.next()
	c.running = false
}

// pause returns from resume. Only the coroutine itself may call it. Once stopped, it does nothing.
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
