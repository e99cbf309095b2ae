// From an array of argument addresses to a call of the kernel, and the table entry that Python finds by name.
// The generated tail after a kernel's text is one WCPU_ENTRY per entry point.
#pragma once

template <class T> struct wcpu_argument { enum : char { kind = __is_class(T) || __is_union(T) ? 's' : 'i' }; };
template <class T> struct wcpu_argument<T *> { enum : char { kind = 'p' }; };
template <class T> struct wcpu_argument<T *__restrict__> { enum : char { kind = 'p' }; };
template <> struct wcpu_argument<float> { enum : char { kind = 'f' }; };
template <> struct wcpu_argument<double> { enum : char { kind = 'f' }; };

template <class... Parameters> struct __attribute__((visibility("hidden"))) wcpu_signature {
    static constexpr wcpu_u8 sizes[] = {sizeof(Parameters)..., 0};
    static constexpr char kinds[] = {wcpu_argument<Parameters>::kind..., 0};
    static constexpr wcpu_u64 count = sizeof...(Parameters);
};

template <int... Index> struct wcpu_indices {};
template <int Count, int... Index> struct wcpu_count_to : wcpu_count_to<Count - 1, Count - 1, Index...> {};
template <int... Index> struct wcpu_count_to<0, Index...> { typedef wcpu_indices<Index...> type; };

template <class T> struct wcpu_plain { typedef T type; };
template <class T> struct wcpu_plain<const T> { typedef T type; };

// Not instrumented: the argument array belongs to the launch, not to the kernel.
template <class... Parameters, int... Index>
WCPU_UNSEEN inline void
wcpu_call(void (*kernel)(Parameters...), void **arguments, wcpu_indices<Index...>) {
    kernel(*(typename wcpu_plain<Parameters>::type *)arguments[Index]...);
}

template <class... Parameters> constexpr wcpu_signature<Parameters...> wcpu_signature_of(void (*)(Parameters...)) {
    return {};
}
template <class... Parameters>
constexpr typename wcpu_count_to<sizeof...(Parameters)>::type wcpu_indices_of(void (*)(Parameters...)) {
    return {};
}

// Shared memory is thread-local: the system makes a thread's when the thread first asks for a part of it.
static thread_local char wcpu_shared_part;
WCPU_UNSEEN inline void *wcpu_shared_place() { return &wcpu_shared_part; }

#define WCPU_ENTRY(kernel, dynamic_shared, capacity)                                                            \
    extern "C" WCPU_UNSEEN void wcpu_call_##kernel(void **arguments) {                                          \
        wcpu_call(&kernel, arguments, wcpu_indices_of(&kernel));                                                \
    }                                                                                                           \
    extern "C" __attribute__((visibility("default"))) const wcpu_kernel wcpu_entry_##kernel = {                 \
        wcpu_call_##kernel, decltype(wcpu_signature_of(&kernel))::count,                                        \
        decltype(wcpu_signature_of(&kernel))::sizes, decltype(wcpu_signature_of(&kernel))::kinds,               \
        wcpu_shared_place, dynamic_shared, capacity};
