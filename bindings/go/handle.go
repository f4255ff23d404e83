// SPDX-License-Identifier: Apache-2.0

package npuseg

// #include "shim.h"
import "C"

import (
	"runtime"
	"sync"
	"unsafe"
)

// handle owns one reference of the library. Close during a call takes effect when the call ends.
type handle struct {
	mutex  sync.Mutex
	object unsafe.Pointer
	users  int
	closed bool
	what   string
}

func newHandle(what string, object unsafe.Pointer) *handle {
	h := &handle{object: object, what: what}
	runtime.SetFinalizer(h, func(h *handle) { h.close() })
	return h
}

// use gives the object for a call and the function that ends the use.
func (h *handle) use() (unsafe.Pointer, func(), error) {
	if h == nil {
		return nil, nil, invalid("the handle is nil or was not opened")
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.closed {
		return nil, nil, invalid("the %s is closed", h.what)
	}
	h.users++
	return h.object, h.done, nil
}

func (h *handle) done() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.users--
	h.free()
}

func (h *handle) close() {
	if h == nil {
		return
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.closed = true
	h.free()
}

func (h *handle) free() {
	if h.closed && h.users == 0 && h.object != nil {
		C.npuseg_release(h.object)
		h.object = nil
		runtime.SetFinalizer(h, nil)
	}
}
