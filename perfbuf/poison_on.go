//go:build perfbuf_poison

package perfbuf

// poison makes every event's bytes a private copy that is overwritten when they die.
const poison = true
