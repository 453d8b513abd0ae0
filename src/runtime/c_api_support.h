// What the functions of the C API are made of: nothing is thrown out of them, pointers are checked,
// results go into the caller's arrays, options may come from programs older than the library.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <span>
#include <stdexcept>
#include <string_view>

#include "cosformer/cosformer.h"
#include "cosformer/generate.h"
#include "cosformer/runtime.h"
#include "cosformer/sampling.h"

struct cosformer_model {
  cosformer::runtime::Model model;
};

struct cosformer_session {
  cosformer::runtime::Session session;
};

struct cosformer_sampler {
  cosformer::Sampler sampler;
  cosformer::SamplingWorkspace workspace{};
};

namespace cosformer::capi {

// Remembers the sentence for this thread, and returns the status.
cosformer_status Fail(cosformer_status status, const char* sentence) noexcept;

// One call of a function of the API: its name begins the sentences about its arguments.
class Call {
 public:
  explicit Call(const char* function) : function_(function) {}

  // Runs the function's body, which returns a status.
  template <class Body>
  cosformer_status Run(const Body& body) const noexcept {
    try {
      return body();
    } catch (const Error& error) {
      return Fail(COSFORMER_INVALID, error.what());
    } catch (const std::bad_alloc&) {
      return OutOfMemory();
    } catch (const std::length_error&) {
      return OutOfMemory();
    } catch (const std::exception& error) {
      return Fail(COSFORMER_FAILED, error.what());
    } catch (...) {
      return Fail(COSFORMER_FAILED, "something that is no std::exception was thrown");
    }
  }

  void Need(const void* pointer, const char* name) const {
    if (pointer == nullptr) {
      throw Error(fmt::format("{}: {} is NULL; give a pointer to one", function_, name));
    }
  }

  template <class T>
  std::span<const T> Array(const T* data, size_t size, const char* name) const {
    if (data == nullptr && size > 0) {
      throw Error(fmt::format("{}: {} is NULL, and there are to be {} of them; give the array",
                              function_, name, size));
    }
    return {data, size};
  }

  std::string_view Text(const char* text, size_t size, const char* name) const {
    const std::span<const char> bytes = Array(text, size, name);
    return {bytes.data(), bytes.size()};
  }

  // For a result that the caller has no room for: the answer to a question, or an error.
  template <class T>
  cosformer_status TellSize(size_t needed, T* out, size_t capacity, size_t* count) const {
    CheckOutput(out, capacity, count);
    *count = needed;
    if (capacity == 0) return COSFORMER_OK;
    return Fail(COSFORMER_BUFFER_TOO_SMALL,
                fmt::format("{}: the result has {} elements, and the array has room for {}; give a "
                            "larger one",
                            function_, needed, capacity)
                    .c_str());
  }

  template <class T>
  cosformer_status Give(std::span<const T> values, T* out, size_t capacity, size_t* count) const {
    if (capacity < values.size()) return TellSize(values.size(), out, capacity, count);
    CheckOutput(out, capacity, count);
    std::copy(values.begin(), values.end(), out);
    *count = values.size();
    return COSFORMER_OK;
  }

  void CheckOutput(const void* out, size_t capacity, const size_t* count) const {
    Need(count, "count");
    if (out == nullptr && capacity > 0) {
      throw Error(fmt::format(
          "{}: the array for the result is NULL, with a capacity of {}; give the array, or 0 to "
          "learn its size",
          function_, capacity));
    }
  }

  size_t Product(size_t rows, int64_t columns) const {
    if (columns > 0 && rows > std::numeric_limits<size_t>::max() / static_cast<size_t>(columns)) {
      throw Error(fmt::format("{}: {} rows of {} numbers are more than there can be; give fewer",
                              function_, rows, columns));
    }
    return rows * static_cast<size_t>(columns);
  }

  // Structs grow at their end: an older program's is shorter than the library's, and one of a newer
  // program asks for what this library does not have.
  void CheckSize(size_t size, size_t first, size_t current, const char* name) const {
    if (size >= first && size <= current) return;
    throw Error(fmt::format("{}: the size of {} is {}, and this library's ({}) has {}; {}",
                            function_, name, size, cosformer_version(), current,
                            size > current
                                ? "install the library of the header that the program is made with"
                                : "fill it with its _init function, which is given sizeof"));
  }

  // The caller's options over the defaults; null: these.
  template <class T>
  T Options(const T* given, const T& defaults, size_t first, const char* name) const {
    T options = defaults;
    if (given == nullptr) return options;
    CheckSize(given->size, first, sizeof(T), name);
    std::memcpy(&options, given, given->size);
    return options;
  }

  template <class T>
  cosformer_status Init(T* options, size_t size, T defaults, size_t first) const {
    return Run([&] {
      Need(options, "options");
      CheckSize(size, first, sizeof(T), "options");
      defaults.size = size;
      std::memcpy(options, &defaults, size);
      return COSFORMER_OK;
    });
  }

  // A new handle of what `make` returns; NULL where it throws.
  template <class Handle, class Make>
  cosformer_status New(Handle** handle, const char* name, const Make& make) const noexcept {
    if (handle != nullptr) *handle = nullptr;
    return Run([&] {
      Need(handle, name);
      *handle = new Handle{make()};
      return COSFORMER_OK;
    });
  }

 private:
  static cosformer_status OutOfMemory() noexcept {
    return Fail(COSFORMER_OUT_OF_MEMORY,
                "there is not enough memory; free sessions, or give shorter texts");
  }

  const char* function_;
};

}  // namespace cosformer::capi
