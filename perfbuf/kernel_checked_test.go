//go:build race || perfbuf_poison

package perfbuf_test

// checked says that this build trades allocations for checks.
const checked = true
