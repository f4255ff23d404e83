// SPDX-License-Identifier: Apache-2.0
// Handles: reference-counted boxes around engine objects, known to a registry while they live.
//
// The registry makes a released, foreign or mistyped pointer an error instead of a crash: a handle
// is only looked into after its address was found there.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/status.h"
#include "engine/answer.h"
#include "engine/embeddinggemma2_engine.h"
#include "engine/photo.h"
#include "engine/report.h"
#include "engine/sam3_engine.h"
#include "npuseg.h"

namespace npuseg::api {

enum class Kind : uint32_t {
  kSam3 = 1,
  kImage = 2,
  kResult = 3,
  kEmbeddingGemma2 = 4,
  kReport = 5
};

struct Handle {
  explicit Handle(Kind kind_of) : kind(kind_of) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  virtual ~Handle() = default;

  const Kind kind;
  uint64_t references = 1;  // guarded by the registry's bucket
  Handle* next = nullptr;   // guarded by the registry's bucket
};

// Makes a new handle known; it is released through release().
void enroll(Handle* handle);
core::Status retain(const void* pointer);
core::Status release(const void* pointer);

// Runs fn with the live handle of this kind, under the lock that release() needs.
const Handle* find_locked(const void* pointer, Kind kind, void (*fn)(const Handle*, void*),
                          void* context);
core::Status wrong_handle(const void* pointer, const char* what);

}  // namespace npuseg::api

struct npuseg_sam3 : npuseg::api::Handle {
  explicit npuseg_sam3(std::shared_ptr<npuseg::engine::Sam3Engine> o)
      : Handle(npuseg::api::Kind::kSam3), object(std::move(o)) {}
  static constexpr npuseg::api::Kind kKind = npuseg::api::Kind::kSam3;
  static constexpr const char* kName = "model";
  const std::shared_ptr<npuseg::engine::Sam3Engine> object;
};

struct npuseg_embeddinggemma2 : npuseg::api::Handle {
  explicit npuseg_embeddinggemma2(std::shared_ptr<npuseg::engine::EmbeddingGemma2Engine> o)
      : Handle(npuseg::api::Kind::kEmbeddingGemma2), object(std::move(o)) {}
  static constexpr npuseg::api::Kind kKind = npuseg::api::Kind::kEmbeddingGemma2;
  static constexpr const char* kName = "model";
  const std::shared_ptr<npuseg::engine::EmbeddingGemma2Engine> object;
};

struct npuseg_image : npuseg::api::Handle {
  explicit npuseg_image(std::shared_ptr<npuseg::engine::Photo> o)
      : Handle(npuseg::api::Kind::kImage), object(std::move(o)) {}
  static constexpr npuseg::api::Kind kKind = npuseg::api::Kind::kImage;
  static constexpr const char* kName = "image";
  const std::shared_ptr<npuseg::engine::Photo> object;
};

struct npuseg_result : npuseg::api::Handle {
  explicit npuseg_result(std::shared_ptr<const npuseg::engine::Answer> o)
      : Handle(npuseg::api::Kind::kResult), object(std::move(o)) {}
  static constexpr npuseg::api::Kind kKind = npuseg::api::Kind::kResult;
  static constexpr const char* kName = "result";
  const std::shared_ptr<const npuseg::engine::Answer> object;
};

struct npuseg_report : npuseg::api::Handle {
  explicit npuseg_report(std::shared_ptr<const npuseg::engine::Report> o)
      : Handle(npuseg::api::Kind::kReport), object(std::move(o)) {}
  static constexpr npuseg::api::Kind kKind = npuseg::api::Kind::kReport;
  static constexpr const char* kName = "report";
  const std::shared_ptr<const npuseg::engine::Report> object;
};

namespace npuseg::api {

// The engine object behind a handle; holding it keeps it alive whatever happens to the handle.
template <class T>
core::Result<decltype(std::remove_const_t<decltype(T::object)>())> object_of(const T* handle) {
  using Object = std::remove_const_t<decltype(T::object)>;
  Object object;
  find_locked(
      handle, T::kKind,
      [](const Handle* found, void* out) {
        *static_cast<Object*>(out) = static_cast<const T*>(found)->object;
      },
      &object);
  if (!object) return wrong_handle(handle, T::kName);
  return object;
}

template <class T, class Object>
void make_handle(Object object, T** out) {
  auto handle = std::make_unique<T>(std::move(object));
  enroll(handle.get());
  *out = handle.release();
}

}  // namespace npuseg::api
