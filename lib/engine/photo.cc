// SPDX-License-Identifier: Apache-2.0
#include "engine/photo.h"

#include <atomic>
#include <chrono>

#include "core/file.h"

namespace npuseg::engine {

using core::Code;
using core::Result;
using core::Status;

namespace {

uint64_t since(std::chrono::steady_clock::time_point begin) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin)
          .count());
}

}  // namespace

Result<std::shared_ptr<Photo>> Photo::open(const std::string& path,
                                           const image::DecodeOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  NPUSEG_ASSIGN_OR_RETURN(const std::string bytes,
                          core::read_file(path, options.limits.max_file_bytes));
  NPUSEG_ASSIGN_OR_RETURN(
      std::shared_ptr<Photo> photo,
      decode({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, options, path));
  photo->decode_nanoseconds_ = since(begin);
  return photo;
}

Result<std::shared_ptr<Photo>> Photo::decode(std::span<const uint8_t> bytes,
                                             const image::DecodeOptions& options,
                                             const std::string& where) {
  const auto begin = std::chrono::steady_clock::now();
  auto photo = std::make_shared<Photo>();
  NPUSEG_ASSIGN_OR_RETURN(photo->picture_, image::decode(bytes, options, where));
  photo->width_ = photo->picture_.width;
  photo->height_ = photo->picture_.height;
  photo->orientation_ = photo->picture_.orientation;
  photo->options_ = options;
  photo->decode_nanoseconds_ = since(begin);
  return photo;
}

Result<std::shared_ptr<Photo>> Photo::from_pixels(const CallerPixels& pixels, bool borrow,
                                                  std::unique_ptr<Release> release,
                                                  const image::DecodeOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  NPUSEG_ASSIGN_OR_RETURN(const size_t needed, image::pixels_bytes(pixels.format, pixels.width,
                                                                   pixels.height, pixels.stride));
  if (pixels.data == nullptr || pixels.bytes < needed) {
    return Status(
        Code::kInvalidArgument,
        core::format("cannot use pixels: %zu bytes are given, their geometry asks for %zu; "
                     "check width, height and stride",
                     pixels.data == nullptr ? 0 : pixels.bytes, needed));
  }
  const image::DecodeLimits& limits = options.limits;
  if (pixels.width > limits.max_side || pixels.height > limits.max_side ||
      uint64_t{pixels.width} * pixels.height > limits.max_pixels) {
    return Status(
        Code::kLimitExceeded,
        core::format("cannot use pixels: %u x %u is over the limit of %llu pixels and %u a "
                     "side; raise the limits or use a smaller picture",
                     pixels.width, pixels.height,
                     static_cast<unsigned long long>(limits.max_pixels), limits.max_side));
  }
  auto photo = std::make_shared<Photo>();
  photo->width_ = pixels.width;
  photo->height_ = pixels.height;
  photo->options_ = options;
  photo->borrowed_ = pixels;
  photo->release_ = std::move(release);
  if (!borrow) {
    const Result<image::RgbView> view = photo->pixels();
    if (!view.ok()) return view.status();
  }
  photo->decode_nanoseconds_ = since(begin);
  return photo;
}

Result<image::RgbView> Photo::pixels() {
  std::unique_ptr<Release> given_back;  // runs behind the lock: the callback may ask the picture
  const std::lock_guard lock(mutex_);
  if (picture_.rgb.empty()) {
    NPUSEG_ASSIGN_OR_RETURN(picture_,
                            image::from_pixels({borrowed_.data, borrowed_.bytes}, borrowed_.format,
                                               borrowed_.width, borrowed_.height, borrowed_.stride,
                                               options_.alpha, options_.limits, options_.budget));
    borrowed_.data = nullptr;
    given_back = std::move(release_);
  }
  return picture_.view();
}

uint64_t Photo::new_identity() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

Result<std::shared_ptr<Photo::Entry>> Photo::lock_entry(const Cache& cache, core::Call& call) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [](const auto& item) { return item.first.expired(); });
    std::shared_ptr<Entry>& at = entries_[cache];
    if (!at) at = std::make_shared<Entry>();
    entry = at;
  }
  std::unique_lock lock(entry->mutex);
  if (entry->computing && entry->owner == std::this_thread::get_id()) {
    return Status(
        Code::kWrongState,
        "cannot compute features: picture: a callback of the call that computes them asks "
        "for them; ask after that call");
  }
  while (entry->computing) {
    if (entry->done.wait_for(lock, std::chrono::milliseconds(4)) == std::cv_status::timeout) {
      lock.unlock();
      NPUSEG_RETURN_IF_ERROR(call.check());
      lock.lock();
    }
  }
  entry->computing = true;
  entry->owner = std::this_thread::get_id();
  return entry;
}

void Photo::keep(const Cache& cache, const std::shared_ptr<Entry>& entry, FeatureCache::Value value,
                 size_t bytes) {
  const std::lock_guard lock(mutex_);
  // Forgotten while it was computed: then it is not to come back.
  const auto at = entries_.find(cache);
  if (at != entries_.end() && at->second == entry) cache->keep(identity_, std::move(value), bytes);
}

void Photo::forget() {
  // The features are freed behind the lock: other threads may be waiting for the picture.
  decltype(entries_) gone;
  {
    const std::lock_guard lock(mutex_);
    gone.swap(entries_);
  }
  for (const auto& [owner, entry] : gone) {
    if (const Cache cache = owner.lock()) cache->drop(identity_);
  }
}

size_t Photo::feature_bytes() const {
  const std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const auto& [owner, entry] : entries_) {
    if (const Cache cache = owner.lock()) sum += cache->bytes_of(identity_);
  }
  return sum;
}

}  // namespace npuseg::engine
