// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"

#include <mutex>

#include "api/guard.h"
#include "api/structs.h"

namespace npuseg::api {

namespace {

// Handles hang in the bucket of their address. Constant-initialised: no start-up code.
struct Bucket {
  std::mutex mutex;
  Handle* first = nullptr;
};
constinit Bucket buckets[64];

Bucket& bucket_of(const void* pointer) {
  return buckets[(reinterpret_cast<uintptr_t>(pointer) >> 6) % 64];
}

// With the bucket's mutex held.
Handle** find(Bucket& bucket, const void* pointer) {
  Handle** at = &bucket.first;
  while (*at != nullptr && *at != pointer) at = &(*at)->next;
  return at;
}

}  // namespace

void enroll(Handle* handle) {
  Bucket& bucket = bucket_of(handle);
  const std::lock_guard lock(bucket.mutex);
  handle->next = bucket.first;
  bucket.first = handle;
}

core::Status wrong_handle(const void* pointer, const char* what) {
  return invalid(pointer == nullptr
                     ? core::format("cannot use %s: NULL; pass a live handle", what)
                     : core::format("cannot use %s: the handle is of another kind or was released; "
                                    "pass a live one",
                                    what));
}

core::Status retain(const void* pointer) {
  if (pointer == nullptr) return {};
  Bucket& bucket = bucket_of(pointer);
  const std::lock_guard lock(bucket.mutex);
  Handle* const handle = *find(bucket, pointer);
  if (handle == nullptr) return wrong_handle(pointer, "handle");
  ++handle->references;
  return {};
}

core::Status release(const void* pointer) {
  if (pointer == nullptr) return {};
  std::unique_ptr<Handle> gone;
  Bucket& bucket = bucket_of(pointer);
  {
    const std::lock_guard lock(bucket.mutex);
    Handle** const at = find(bucket, pointer);
    if (*at == nullptr) return wrong_handle(pointer, "handle");
    if (--(*at)->references == 0) {
      gone.reset(*at);
      *at = gone->next;
    }
  }
  return {};
}

const Handle* find_locked(const void* pointer, Kind kind, void (*fn)(const Handle*, void*),
                          void* context) {
  if (pointer == nullptr) return nullptr;
  Bucket& bucket = bucket_of(pointer);
  const std::lock_guard lock(bucket.mutex);
  const Handle* handle = *find(bucket, pointer);
  if (handle == nullptr || handle->kind != kind) return nullptr;
  fn(handle, context);
  return handle;
}

}  // namespace npuseg::api

extern "C" {

npuseg_status npuseg_retain(void* handle) {
  return npuseg::api::guard([&] { return npuseg::api::retain(handle); });
}

npuseg_status npuseg_release(void* handle) {
  return npuseg::api::guard([&] { return npuseg::api::release(handle); });
}

}  // extern "C"
