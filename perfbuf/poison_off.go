//go:build !perfbuf_poison

package perfbuf

const poison = false

// batchSize is how many samples are parsed at a time: enough for the walk to run ahead of the user's
// function, few enough to stay in the first-level cache.
const batchSize = 32
