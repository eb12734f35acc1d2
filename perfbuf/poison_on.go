//go:build perfbuf_poison

package perfbuf

// poison makes every event's bytes a private copy that is overwritten when they die.
const poison = true

// batchSize is 1 as each event has bytes of its own.
const batchSize = 1
