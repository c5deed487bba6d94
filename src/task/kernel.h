// Where typed kernels meet untyped tensors: a plain function and the names of its parameters become something the runner can call.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "task/contract.h"

namespace faibench {

/// The true length of a data-dependent output: the kernel sets it.
struct Length {
  std::int64_t value = 0;
};

/// One call's tensors and what comes back besides them. Inputs passed the general codes; outputs are allocated (upper bounds).
struct Arguments {
  const TensorRefMap& inputs;
  TensorRefMap& outputs;
  Dims lengths;  ///< true lengths of data-dependent outputs, by letter
};

/// A callable variant: a function for each combination of dtypes it is written for.
class Kernel {
 public:
  struct Overload {
    std::function<bool(const TensorRefMap& inputs, const TensorRefMap& outputs)> accepts;
    std::function<Rejected(Arguments&)> call;
  };
  Kernel() = default;
  explicit Kernel(std::vector<Overload> overloads) : overloads_(std::move(overloads)) {}
  /// Runs the first overload whose dtypes fit; Error(internal) if none does.
  Rejected operator()(Arguments& arguments) const;
  explicit operator bool() const { return !overloads_.empty(); }

 private:
  std::vector<Overload> overloads_;
};

namespace kernel_detail {

template <class T> struct Parameter {  // a scalar by value
  static bool accepts(const TensorRefMap& in, const TensorRefMap&, const std::string& name) {
    const TensorRef* t = in.find(name);
    return t && t->rank() == 0 && t->dtype == dtype_of<T>;
  }
  static T get(Arguments& a, const std::string& name) { return a.inputs.at(name).template scalar<T>(); }
};
template <> struct Parameter<bool> {
  static bool accepts(const TensorRefMap& in, const TensorRefMap& out, const std::string& name) { return Parameter<Bool8>::accepts(in, out, name); }
  static bool get(Arguments& a, const std::string& name) { return static_cast<bool>(a.inputs.at(name).scalar<Bool8>()); }
};
template <> struct Parameter<std::string_view> {  // u8[n] as text
  static bool accepts(const TensorRefMap& in, const TensorRefMap&, const std::string& name) {
    const TensorRef* t = in.find(name);
    return t && t->rank() == 1 && t->dtype == Dtype::u8;
  }
  static std::string_view get(Arguments& a, const std::string& name) {
    const auto bytes = a.inputs.at(name).flat<const std::uint8_t>();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};
template <class T, int R> struct Parameter<View<const T, R>> {  // an input
  static bool accepts(const TensorRefMap& in, const TensorRefMap&, const std::string& name) {
    const TensorRef* t = in.find(name);
    return t && t->rank() == R && t->dtype == dtype_of<T>;
  }
  static View<const T, R> get(Arguments& a, const std::string& name) { return a.inputs.at(name).template view<const T, R>(); }
};
template <class T, int R> requires(!std::is_const_v<T>) struct Parameter<View<T, R>> {  // an output; an in-place tensor is among the outputs too
  static bool accepts(const TensorRefMap&, const TensorRefMap& out, const std::string& name) {
    const TensorRef* t = out.find(name);
    return t && t->rank() == R && t->dtype == dtype_of<T>;
  }
  static View<T, R> get(Arguments& a, const std::string& name) { return a.outputs.at(name).template view<T, R>(); }
};
template <class V> struct Parameter<std::optional<V>> {  // an optional input or a conditional output
  static bool accepts(const TensorRefMap& in, const TensorRefMap& out, const std::string& name) {
    return (!in.find(name) && !out.find(name)) || Parameter<V>::accepts(in, out, name);
  }
  static std::optional<V> get(Arguments& a, const std::string& name) {
    if (!a.inputs.find(name) && !a.outputs.find(name)) return std::nullopt;
    return Parameter<V>::get(a, name);
  }
};
struct LengthSetter {  // converts to Length& for the call, stores the value after it
  Arguments& arguments;
  std::string name;
  Length length;
  ~LengthSetter() { arguments.lengths.set(name, length.value); }
  operator Length&() { return length; }
};
template <> struct Parameter<Length&> {
  static bool accepts(const TensorRefMap&, const TensorRefMap&, const std::string&) { return true; }
  static LengthSetter get(Arguments& a, const std::string& name) { return {a, name, {}}; }
};

template <class Result, class... P, std::size_t... I>
Kernel::Overload overload(Result (*function)(P...), std::vector<std::string> names, std::index_sequence<I...>) {
  return {[names](const TensorRefMap& in, const TensorRefMap& out) { return (Parameter<P>::accepts(in, out, names[I]) && ...); },
          [names, function](Arguments& a) -> Rejected {
            if constexpr (std::is_void_v<Result>) {
              function(Parameter<P>::get(a, names[I])...);
              return std::nullopt;
            } else {
              return function(Parameter<P>::get(a, names[I])...);
            }
          }};
}

}  // namespace kernel_detail

/// Binds a typed function to tensor names, one a parameter in order:
///   View<const T, R>  an input            T by value (bool too)   a scalar input       std::string_view  a u8[n] input
///   View<T, R>        an output, in place  std::optional<View>     optional/conditional  Length&          a data-dependent length
/// It returns void, or Rejected when the contract leaves rules to the variant.
/// An object and not a function, so that std::bind is not looked up beside it when a parameter is of namespace std.
struct Bind {
  template <class Result, class... P>
  Kernel::Overload operator()(Result (*function)(P...), std::vector<std::string> names) const {
    if (names.size() != sizeof...(P)) throw Error(Error::Kind::internal, "bind: a function of " + std::to_string(sizeof...(P)) + " parameters got " + std::to_string(names.size()) + " names");
    return kernel_detail::overload(function, std::move(names), std::index_sequence_for<P...>());
  }
};
inline constexpr Bind bind{};

}  // namespace faibench
