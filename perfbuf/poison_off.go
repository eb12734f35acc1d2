//go:build !perfbuf_poison

package perfbuf

const poison = false
