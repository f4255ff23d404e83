// SPDX-License-Identifier: Apache-2.0
// The exception barrier: every exported function that can fail is one call of guard().
#pragma once

#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "api/error.h"

namespace npuseg::api {

template <class Fn>
npuseg_status guard(Fn&& fn) noexcept {
  try {
    const core::Status status = std::forward<Fn>(fn)();
    return status.ok() ? NPUSEG_OK : remember(status);
  } catch (const std::bad_alloc&) {
    return remember(core::Code::kOutOfMemory, 0, "out of memory; free memory and try again");
  } catch (const std::length_error&) {
    return remember(core::Code::kOutOfMemory, 0, "a size is larger than memory can be");
  } catch (const std::system_error& error) {
    return remember(core::Code::kIo, error.code().value(), error.what());
  } catch (const std::exception& error) {
    return remember(core::Code::kInternal, 0, error.what());
  } catch (...) {
    return remember(core::Code::kInternal, 0, "unknown exception; please report it");
  }
}

}  // namespace npuseg::api
