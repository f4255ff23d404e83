// SPDX-License-Identifier: Apache-2.0

package npuseg

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"image"
	"image/draw"
	"math"
	"unsafe"
)

// Image is a picture together with what models computed of it.
type Image struct{ handle *handle }

// OpenImage reads a JPEG or PNG file.
func OpenImage(path string) (*Image, error) {
	if err := noNUL("path", path); err != nil {
		return nil, err
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	return makeImage(func(out *unsafe.Pointer) C.npuseg_status { return C.go_image_open(name, out) })
}

// DecodeImage decodes a JPEG or PNG file in memory.
func DecodeImage(file []byte) (*Image, error) {
	if len(file) == 0 {
		return nil, &Error{Status: CorruptData, Message: "a picture of no bytes"}
	}
	return makeImage(func(out *unsafe.Pointer) C.npuseg_status {
		return C.go_image_from_memory(unsafe.Pointer(&file[0]), C.size_t(len(file)), out)
	})
}

// NewImage takes a copy of the pixels. Transparency is ignored, as with files.
func NewImage(pixels image.Image) (*Image, error) {
	if pixels == nil {
		return nil, invalid("no picture")
	}
	switch p := pixels.(type) {
	case *image.NRGBA:
		if p != nil {
			return fromPixels(C.NPUSEG_FORMAT_RGBA, 4, p.Rect, p.Stride, p.Pix)
		}
	case *image.Gray:
		if p != nil {
			return fromPixels(C.NPUSEG_FORMAT_GREY, 1, p.Rect, p.Stride, p.Pix)
		}
	default:
		bounds := pixels.Bounds()
		if bounds.Empty() || bounds.Dx() > 65535 || bounds.Dy() > 65535 {
			return nil, invalid("a picture of %d x %d pixels", bounds.Dx(), bounds.Dy())
		}
		if int64(bounds.Dx())*int64(bounds.Dy()) > 178956970 {
			return nil, &Error{Status: LimitExceeded, Message: "a picture of more than 178956970 pixels"}
		}
		copied := image.NewNRGBA(bounds)
		draw.Draw(copied, bounds, pixels, bounds.Min, draw.Src)
		return fromPixels(C.NPUSEG_FORMAT_RGBA, 4, bounds, copied.Stride, copied.Pix)
	}
	return nil, invalid("the picture is a nil pointer")
}

// fromPixels takes a part of a picture as image.SubImage makes it: Pix begins at the part.
func fromPixels(format C.uint32_t, channels int, bounds image.Rectangle, stride int, pix []byte) (*Image, error) {
	width, height := bounds.Dx(), bounds.Dy()
	if width <= 0 || height <= 0 || width > math.MaxInt32/channels || height > math.MaxInt32 ||
		len(pix) == 0 || stride < channels*width {
		return nil, invalid("a picture of %d x %d pixels in %d bytes, %d a row", width, height, len(pix), stride)
	}
	return makeImage(func(out *unsafe.Pointer) C.npuseg_status {
		return C.go_image_from_pixels(format, C.uint32_t(width), C.uint32_t(height), C.uint64_t(stride),
			unsafe.Pointer(&pix[0]), C.uint64_t(len(pix)), out)
	})
}

func makeImage(call func(out *unsafe.Pointer) C.npuseg_status) (*Image, error) {
	if err := checkVersion(); err != nil {
		return nil, err
	}
	var object unsafe.Pointer
	if err := try(func() C.npuseg_status { return call(&object) }); err != nil {
		return nil, err
	}
	return &Image{newHandle("picture", object)}, nil
}

// Size is that of the upright picture.
func (i *Image) Size() (width, height int, err error) {
	object, done, err := i.use()
	if err != nil {
		return 0, 0, err
	}
	defer done()
	info := C.npuseg_image_data{struct_size: C.sizeof_npuseg_image_data}
	err = try(func() C.npuseg_status { return C.npuseg_image_info((*C.npuseg_image)(object), &info) })
	return int(info.width), int(info.height), err
}

// Close gives the picture back. Closing again is fine.
func (i *Image) Close() error {
	if i != nil {
		i.handle.close()
	}
	return nil
}

func (i *Image) use() (unsafe.Pointer, func(), error) {
	if i == nil {
		return nil, nil, invalid("the picture is nil")
	}
	return i.handle.use()
}
