// SPDX-License-Identifier: Apache-2.0

package npuseg

// #include <stdint.h>
import "C"

import (
	"context"
	"runtime"
	"runtime/cgo"
	"unsafe"
)

// Progress is called every few milliseconds of a long call. A panic in it stops the call and goes
// on in the caller.
type Progress func(stage int, done, total uint64)

// watch is what a running call asks for.
type watch struct {
	context  context.Context
	progress Progress
	panicked any
	exited   bool
}

//export npusegGoProgress
func npusegGoProgress(user unsafe.Pointer, stage C.uint32_t, done, total C.uint64_t) C.int32_t {
	w := cgo.Handle(*(*C.uintptr_t)(user)).Value().(*watch)
	if w.context.Err() != nil {
		return 1
	}
	if w.progress == nil {
		return 0
	}
	// Not on this stack: neither a panic nor runtime.Goexit may unwind the library's frames.
	ended := make(chan bool)
	go func() {
		returned := false
		defer func() {
			if !returned {
				w.panicked = recover()
				w.exited = w.panicked == nil
			}
			ended <- returned
		}()
		w.progress(int(stage), uint64(done), uint64(total))
		returned = true
	}()
	if <-ended {
		return 0
	}
	return 1
}

// watched runs a call that a context may stop; the number it hands on is 0 when nothing watches.
func watched(ctx context.Context, progress Progress, call func(number C.uintptr_t) error) error {
	if ctx == nil {
		ctx = context.Background()
	}
	if err := ctx.Err(); err != nil {
		return &Error{Status: stopped(err), Message: "not begun: " + err.Error(), cause: err}
	}
	if ctx.Done() == nil && progress == nil {
		return call(0)
	}
	w := &watch{context: ctx, progress: progress}
	number := cgo.NewHandle(w)
	defer number.Delete()
	err := call(C.uintptr_t(number))
	if w.panicked != nil {
		panic(w.panicked)
	}
	if w.exited {
		runtime.Goexit()
	}
	if failed, ok := err.(*Error); ok && failed.Status == Cancelled && ctx.Err() != nil {
		failed.Status, failed.cause = stopped(ctx.Err()), ctx.Err()
		failed.Message += ": " + ctx.Err().Error()
	}
	return err
}

func stopped(err error) Status {
	if err == context.DeadlineExceeded {
		return Timeout
	}
	return Cancelled
}
