// A stand-in accelerator for tests: a PrivateUse1 device that computes on the CPU and behaves like
// a GPU where programs go wrong. Its memory cannot be read by a CPU kernel, its kernels end late,
// a process that was forked after it was opened cannot use it, and host waits are counted.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/TensorFactories.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <pthread.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace {

using at::Tensor;
using Clock = std::chrono::steady_clock;
constexpr auto KIND = c10::DeviceType::PrivateUse1;
constexpr size_t REGION = size_t(1) << 36;  // addresses a device, not memory
constexpr int MOST = 8;

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::atoll(text) : otherwise;
}

int device_count() {
  static const int count = std::min<int64_t>(setting("STANDIN_DEVICES", 0), MOST);
  return count;
}

// ---- opening, and the rule that a process forked afterwards cannot use it

std::atomic<bool> is_open{false}, is_bad_fork{false};

void open_device() {
  TORCH_CHECK(
      !is_bad_fork, "Cannot re-initialize the stand-in in a forked process: it was open before the fork");
  TORCH_CHECK(device_count() > 0, "there is no stand-in device (STANDIN_DEVICES)");
  if (!is_open.exchange(true))
    pthread_atfork(nullptr, nullptr, [] { is_bad_fork = true; });
}

// ---- memory: each page is mapped twice, and the address that tensors show cannot be touched

struct Memory {
  char *shown = nullptr, *real = nullptr;
  std::map<size_t, size_t> used;  // offset → bytes
  int64_t current = 0, peak = 0, count = 0, ooms = 0;
};

std::mutex memory_lock;
Memory memories[MOST];

void map_memory(Memory& memory) {
  if (memory.shown) return;
  int file = memfd_create("standin", MFD_CLOEXEC);
  TORCH_CHECK(file >= 0 && ftruncate(file, REGION) == 0, "the stand-in has no memory");
  auto map = [&](int rights) {
    void* at = mmap(nullptr, REGION, rights, MAP_SHARED | MAP_NORESERVE, file, 0);
    TORCH_CHECK(at != MAP_FAILED, "the stand-in's memory cannot be mapped");
    return static_cast<char*>(at);
  };
  memory.shown = map(PROT_NONE);
  memory.real = map(PROT_READ | PROT_WRITE);
  close(file);
}

int owner(const void* pointer) {
  for (int i = 0; i < MOST; i++) {
    auto at = static_cast<const char*>(pointer);
    if (memories[i].shown && at >= memories[i].shown && at < memories[i].shown + REGION) return i;
  }
  return -1;
}

void* real(const void* pointer) {
  if (!pointer) return nullptr;
  auto& memory = memories[owner(pointer)];
  return memory.real + (static_cast<const char*>(pointer) - memory.shown);
}

void release(void* pointer) {
  if (!pointer || is_bad_fork) return;
  std::lock_guard<std::mutex> guard(memory_lock);
  auto& memory = memories[owner(pointer)];
  auto block = memory.used.find(static_cast<char*>(pointer) - memory.shown);
  memory.current -= block->second;
  memory.used.erase(block);
}

c10::DeviceIndex& current_device() {
  static thread_local c10::DeviceIndex index = 0;
  return index;
}

struct Allocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    open_device();
    auto index = current_device();
    c10::Device device(KIND, index);
    if (bytes == 0) return {nullptr, nullptr, &release, device};
    std::lock_guard<std::mutex> guard(memory_lock);
    auto& memory = memories[index];
    map_memory(memory);
    int64_t size = (bytes + 511) / 512 * 512, limit = setting("STANDIN_BYTES", int64_t(1) << 32);
    if (memory.current + size > limit) {
      memory.ooms++;
      TORCH_CHECK_WITH(
          OutOfMemoryError, false, "the stand-in is out of memory. Tried to allocate ", size,
          " bytes of ", limit, " (", memory.current, " in use)");
    }
    size_t offset = 0;  // the first gap that is wide enough
    for (auto& [start, taken] : memory.used) {
      if (start >= offset + size) break;
      offset = start + taken;
    }
    memory.used[offset] = size;
    memory.current += size;
    memory.peak = std::max(memory.peak, memory.current);
    memory.count++;
    void* pointer = memory.shown + offset;
    return {pointer, pointer, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t count) const override {
    std::memcpy(real(to), real(from), count);
  }
  bool initialized() override { return is_open; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    std::lock_guard<std::mutex> guard(memory_lock);
    c10::CachingDeviceAllocator::DeviceStats stats;
    auto& memory = memories[index];
    auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    for (auto* each : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes}) {
      (*each)[all].current = memory.current;
      (*each)[all].peak = memory.peak;
    }
    stats.num_device_alloc = memory.count;
    stats.num_ooms = memory.ooms;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex index) override {
    std::lock_guard<std::mutex> guard(memory_lock);
    memories[index].peak = memories[index].current;
  }
};

Allocator allocator;
REGISTER_ALLOCATOR(KIND, &allocator);

// ---- pinned memory of the host, to which late copies may go

std::mutex pinned_lock;
std::map<const char*, size_t> pinned;

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto* at = static_cast<char*>(std::malloc(std::max<size_t>(bytes, 1)));
    std::lock_guard<std::mutex> guard(pinned_lock);
    pinned[at] = bytes;
    return {at, at, &forget, c10::Device(c10::DeviceType::CPU)};
  }
  static void forget(void* at) {
    std::lock_guard<std::mutex> guard(pinned_lock);
    pinned.erase(static_cast<char*>(at));
    std::free(at);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &forget; }
  void copy_data(void* to, const void* from, size_t n) const override { std::memcpy(to, from, n); }
};

PinnedAllocator pinned_allocator;

bool is_pinned(const void* pointer) {
  std::lock_guard<std::mutex> guard(pinned_lock);
  auto after = pinned.upper_bound(static_cast<const char*>(pointer));
  if (after == pinned.begin()) return false;
  auto block = std::prev(after);
  return static_cast<const char*>(pointer) < block->first + std::max<size_t>(block->second, 1);
}

// ---- streams: a kernel computes at once, and ends late by the clock

struct LateCopy {
  Tensor to, from;
};

std::recursive_mutex stream_lock;
std::map<std::pair<int, int64_t>, Clock::time_point> ends;  // (device, stream) → when it is idle
std::deque<LateCopy> late_copies;
std::atomic<int64_t> launches{0}, waits{0}, late_us{20};
std::atomic<bool> waits_refused{false};

c10::StreamId& current_stream(int device) {
  static thread_local c10::StreamId streams[MOST] = {};
  return streams[device];
}

void launch(int device) {
  auto late = std::chrono::microseconds(late_us.load());
  launches++;
  std::lock_guard<std::recursive_mutex> guard(stream_lock);
  auto& end = ends[{device, current_stream(device)}];
  end = std::max(end, Clock::now()) + late;
}

void wait_until(Clock::time_point end, const char* why) {
  waits++;
  TORCH_CHECK(!waits_refused, "a wait of the host for the device was refused: ", why);
  std::this_thread::sleep_until(end);
  std::lock_guard<std::recursive_mutex> guard(stream_lock);
  while (!late_copies.empty()) {
    auto copy = late_copies.front();
    late_copies.pop_front();
    copy.to.copy_(copy.from);
  }
}

Clock::time_point end_of(int device) {
  std::lock_guard<std::recursive_mutex> guard(stream_lock);
  Clock::time_point end{};
  for (auto& [key, each] : ends)
    if (key.first == device) end = std::max(end, each);
  return end;
}

struct Event {
  Clock::time_point end;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return KIND; }
  c10::Device getDevice() const override { return {KIND, current_device()}; }
  c10::Device exchangeDevice(c10::Device device) const override {
    auto before = getDevice();
    setDevice(device);
    return before;
  }
  void setDevice(c10::Device device) const override {
    if (device.index() < 0) return;
    TORCH_CHECK(device.index() < device_count(), "there is no stand-in device ", device.index());
    current_device() = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) current_device() = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_stream(device.index()));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    static std::atomic<c10::StreamId> next{1};
    return c10::Stream(c10::Stream::UNSAFE, device, next++);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    auto before = getStream(stream.device());
    current_stream(stream.device_index()) = stream.id();
    return before;
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag)
      const override {
    std::lock_guard<std::recursive_mutex> guard(stream_lock);
    if (!*event) *event = new Event;
    auto end = ends[{stream.device_index(), stream.id()}];
    static_cast<Event*>(*event)->end = std::max(end, Clock::now());
  }
  void block(void* event, const c10::Stream& stream) const override {
    std::lock_guard<std::recursive_mutex> guard(stream_lock);
    auto& end = ends[{stream.device_index(), stream.id()}];
    if (event) end = std::max(end, static_cast<Event*>(event)->end);
  }
  bool queryEvent(void* event) const override {
    return !event || static_cast<Event*>(event)->end <= Clock::now();
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* one, void* two, c10::DeviceIndex) const override {
    auto passed = static_cast<Event*>(two)->end - static_cast<Event*>(one)->end;
    return std::chrono::duration<double, std::milli>(passed).count();
  }
  bool queryStream(const c10::Stream& stream) const override {
    std::lock_guard<std::recursive_mutex> guard(stream_lock);
    return ends[{stream.device_index(), stream.id()}] <= Clock::now();
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    synchronizeDevice(stream.device_index());
  }
  void synchronizeEvent(void* event) const override {
    if (event) wait_until(static_cast<Event*>(event)->end, "an event");
  }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    open_device();
    wait_until(end_of(index < 0 ? current_device() : index), "synchronize");
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// ---- random numbers: each device has a generator, which the CPU's kernels borrow

struct Generator final : c10::GeneratorImpl {
  at::Generator inner = at::detail::createCPUGenerator(c10::default_rng_seed_val);
  explicit Generator(c10::DeviceIndex index)
      : GeneratorImpl({KIND, index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}
  void set_current_seed(uint64_t seed) override { inner.set_current_seed(seed); }
  uint64_t current_seed() const override { return inner.current_seed(); }
  uint64_t seed() override { return at::Generator(inner).seed(); }
  void set_offset(uint64_t) override { TORCH_CHECK(false, "the stand-in has no offset"); }
  uint64_t get_offset() const override { TORCH_CHECK(false, "the stand-in has no offset"); }
  void set_state(const c10::TensorImpl& state) override {
    inner.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return inner.unsafeGetGeneratorImpl()->get_state();
  }
  GeneratorImpl* clone_impl() const override {
    auto* copy = new Generator(device().index());
    copy->inner = inner.clone();
    return copy;
  }
};

const at::Generator& default_generator(c10::DeviceIndex index) {
  static const auto all = [] {
    std::vector<at::Generator> made;
    for (int i = 0; i < MOST; i++) made.push_back(at::make_generator<Generator>(i));
    return made;
  }();
  return all[index < 0 ? current_device() : index];
}

at::Generator inner_of(const at::Generator& generator) {
  return static_cast<Generator*>(generator.unsafeGetGeneratorImpl())->inner;
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return is_open && !is_bad_fork; }
  void init() const override { open_device(); }
  c10::DeviceIndex deviceCount() const override { return device_count(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { Guard().setDevice({KIND, index}); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return Guard().exchangeDevice({KIND, index}).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return exchangeDevice(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<Generator>(index < 0 ? current_device() : index);
  }
  at::Device getDeviceFromPtr(void* pointer) const override {
    return {KIND, static_cast<c10::DeviceIndex>(owner(pointer))};
  }
  bool isPinnedPtr(const void* pointer) const override { return is_pinned(pointer); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator; }
};

const bool hooks_are_registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

// ---- kernels: the CPU's, on another view of the same memory

Tensor on_host(const Tensor& tensor) {
  auto options = tensor.options().device(at::kCPU).requires_grad(false);
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  auto host = at::from_blob(
      real(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(), [](void*) {}, options,
      at::Device(at::kCPU));
  if (tensor.is_neg()) host._set_neg(true);
  if (tensor.is_conj()) host._set_conj(true);
  return host;
}

Tensor new_strided(
    at::IntArrayRef size, at::IntArrayRef stride, at::ScalarType dtype, c10::Device device) {
  c10::DeviceGuard guard(device);
  return at::detail::empty_strided_generic(
      size, stride, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
}

Tensor on_device(const Tensor& host, c10::Device device) {
  if (!host.defined()) return host;
  auto made = new_strided(host.sizes(), host.strides(), host.scalar_type(), device);
  if (host.numel()) on_host(made).copy_(host);
  return made;
}

bool waits_for_its_shape(const std::string& name) {
  static const std::set<std::string> names{
      "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim",
      "aten::unique_consecutive", "aten::bincount", "aten::equal", "aten::is_nonzero"};
  return names.count(name);
}

// The kernel of every operator that has none of its own.
void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  open_device();
  const auto& schema = op.schema();
  const auto first = stack->size() - schema.arguments().size();
  const std::vector<c10::IValue> given(stack->begin() + first, stack->end());
  std::optional<c10::Device> device;
  bool waits_here = waits_for_its_shape(schema.name());

  auto see = [&](const Tensor& tensor) {
    if (!tensor.defined()) return;
    if (tensor.device().type() == KIND) {
      TORCH_CHECK(
          !device || *device == tensor.device(), "Expected all tensors to be on the same device, but found ",
          *device, " and ", tensor.device(), " in ", schema.name());
      device = tensor.device();
    }
  };
  for (auto& value : given) {
    if (value.isTensor()) see(value.toTensor());
    else if (value.isTensorList()) for (const Tensor& each : value.toTensorVector()) see(each);
    else if (value.isOptionalTensorList())
      for (const auto& each : value.toOptionalTensorVector()) if (each) {
        see(*each);
        waits_here |= each->scalar_type() == at::kBool;
      }
  }
  auto lend = [&](const Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    if (tensor.device().type() == KIND) return on_host(tensor);
    TORCH_CHECK(
        tensor.dim() == 0, "Expected all tensors to be on the same device, but found ", *device,
        " and ", tensor.device(), " in ", schema.name());
    return tensor;
  };
  std::optional<at::Generator> generator;
  bool takes_generator = false;
  std::vector<std::pair<Tensor, Tensor>> replaced;  // outputs to resize: (device's, host's)
  for (size_t i = 0; i < given.size(); i++) {
    auto& value = (*stack)[first + i];
    const auto& argument = schema.arguments()[i];
    bool writes = argument.alias_info() && argument.alias_info()->isWrite();
    TORCH_CHECK(
        !argument.alias_info() || writes, "the stand-in lacks the view ", schema.name());
    if (value.isTensor()) {
      auto tensor = value.toTensor();
      auto host = lend(tensor);
      if (writes && tensor.defined() && tensor.numel() == 0)
        replaced.emplace_back(tensor, host = at::empty({0}, host.options()));
      value = host;
    } else if (value.isTensorList()) {
      std::vector<Tensor> hosts;
      for (const Tensor& each : value.toTensorVector()) hosts.push_back(lend(each));
      value = hosts;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> hosts;
      for (const auto& each : value.toOptionalTensorVector())
        hosts.push_back(each ? std::optional<Tensor>(lend(*each)) : std::nullopt);
      value = hosts;
    } else if (argument.type()->str().find("Generator") != std::string::npos) {
      takes_generator = true;
      generator = value.isNone() ? default_generator(device ? device->index() : -1)
                                 : value.to<at::Generator>();
      value = inner_of(*generator);
    } else if (value.isDevice()) {
      device = value.toDevice();
      value = c10::Device(at::kCPU);
    }
  }
  c10::Device on = device.value_or(c10::Device(KIND, current_device()));
  if (waits_here) wait_until(end_of(on.index()), schema.name().c_str());

  auto run = [&] { op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack); };
  if (!takes_generator && op.hasTag(at::Tag::nondeterministic_seeded)) {
    auto cpu = at::detail::getDefaultCPUGenerator();
    auto before = cpu.get_state();
    auto inner = inner_of(default_generator(on.index()));
    cpu.set_state(inner.get_state());
    run();
    inner.set_state(cpu.get_state());
    cpu.set_state(before);
  } else {
    run();
  }
  for (auto& [mine, host] : replaced) {
    auto made = on_device(host, on);
    mine.unsafeGetTensorImpl()->set_storage_keep_dtype(made.storage());
    mine.unsafeGetTensorImpl()->set_sizes_and_strides(made.sizes(), made.strides());
  }

  const auto results = schema.returns().size();
  const auto top = stack->size() - results;
  for (size_t i = 0; i < results; i++) {
    auto& value = (*stack)[top + i];
    const auto* alias = schema.returns()[i].alias_info();
    if (alias && alias->isWrite()) {
      for (size_t j = 0; j < given.size(); j++) {
        const auto* other = schema.arguments()[j].alias_info();
        if (other && *other == *alias) value = given[j];
      }
    } else if (value.isTensor()) {
      value = on_device(value.toTensor(), on);
    } else if (value.isTensorList()) {
      std::vector<Tensor> made;
      for (const Tensor& each : value.toTensorVector()) made.push_back(on_device(each, on));
      value = made;
    }
  }
  launch(on.index());
}

Tensor empty(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::DeviceGuard guard(device.value_or(at::Device(KIND)));
  return at::detail::empty_generic(
      size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  return new_strided(
      size, stride, c10::dtype_or_default(dtype), device.value_or(at::Device(KIND)));
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  bool is_from = from.device().type() == KIND, is_to = to.device().type() == KIND;
  auto host_from = is_from ? on_host(from) : from, host_to = is_to ? on_host(to) : to;
  auto index = is_from ? from.device().index() : to.device().index();
  launch(index);
  if (is_from && !is_to && non_blocking && to.is_pinned()) {
    LateCopy copy{to, at::empty_like(to).copy_(host_from)};
    std::lock_guard<std::recursive_mutex> guard(stream_lock);
    if (to.is_non_overlapping_and_dense()) std::memset(to.data_ptr(), 0xFF, to.nbytes());
    late_copies.push_back(copy);
  } else {
    if (is_from != is_to && !(is_to && non_blocking)) wait_until(end_of(index), "a copy");
    host_to.copy_(host_from);
  }
  return to;
}

at::Scalar local_scalar(const Tensor& tensor) {
  wait_until(end_of(tensor.device().index()), "the value of a tensor");
  return on_host(tensor).item();
}

// ---- views: the memory is the same, so torch's own kernels serve

Tensor alias_with(
    const Tensor& tensor, at::IntArrayRef size, at::IntArrayRef stride, int64_t offset) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(tensor.storage()), tensor.key_set(), tensor.dtype());
  made.unsafeGetTensorImpl()->set_storage_offset(offset);
  made.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  return made;
}

// The view that the same call makes of a tensor of this shape without memory.
Tensor viewed(const Tensor& tensor, const std::function<Tensor(const Tensor&)>& call) {
  auto meta = at::empty_strided(
      tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta).requires_grad(false));
  auto view = call(meta);
  return alias_with(
      tensor, view.sizes(), view.strides(), tensor.storage_offset() + view.storage_offset());
}

Tensor view(const Tensor& tensor, at::IntArrayRef size) {
  return viewed(tensor, [&](const Tensor& meta) { return meta.view(size); });
}
Tensor reshape_alias(const Tensor& tensor, at::IntArrayRef size, at::IntArrayRef stride) {
  return alias_with(tensor, size, stride, tensor.storage_offset());
}
Tensor as_strided(
    const Tensor& tensor, at::IntArrayRef size, at::IntArrayRef stride,
    std::optional<int64_t> offset) {
  return alias_with(tensor, size, stride, offset.value_or(tensor.storage_offset()));
}
Tensor unfold(const Tensor& tensor, int64_t dim, int64_t size, int64_t step) {
  return viewed(tensor, [&](const Tensor& meta) { return meta.unfold(dim, size, step); });
}
Tensor& set_storage(
    Tensor& tensor, at::Storage storage, int64_t offset, at::IntArrayRef size,
    at::IntArrayRef stride) {
  auto* made = tensor.unsafeGetTensorImpl();
  made->set_storage_keep_dtype(std::move(storage));
  made->set_storage_offset(offset);
  made->set_sizes_and_strides(
      size, stride.empty() && !size.empty() ? at::detail::defaultStrides(size) : stride.vec());
  return tensor;
}
Tensor& set_whole(Tensor& tensor, at::Storage storage) {
  int64_t size = storage.nbytes() / tensor.itemsize();
  return set_storage(tensor, std::move(storage), 0, {size}, {1});
}
Tensor& set_tensor(Tensor& tensor, const Tensor& source) {
  return set_storage(
      tensor, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

// ---- kernels that a GPU has and the CPU has under another name

Tensor convolution(
    const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
    int64_t groups) {
  launch(x.device().index());
  auto host_bias = bias && bias->defined() ? std::optional<Tensor>(on_host(*bias)) : std::nullopt;
  return on_device(
      at::convolution(
          on_host(x), on_host(weight), host_bias, stride, padding, dilation, transposed,
          output_padding, groups),
      x.device());
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& grad, const Tensor& x, const Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
    int64_t groups, std::array<bool, 3> mask) {
  launch(x.device().index());
  auto [one, two, three] = at::convolution_backward(
      on_host(grad), on_host(x), on_host(weight), at::IntArrayRef({weight.size(0)}), stride, padding,
      dilation, transposed, output_padding, groups, mask);
  auto on = x.device();
  return {on_device(one, on), on_device(two, on), on_device(three, on)};
}

bool has(const std::optional<Tensor>& tensor) { return tensor && tensor->defined(); }

int64_t choose_attention(
    const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask,
    double dropout, bool, std::optional<double>, bool) {
  bool is_plain = q.dim() == 4 && k.dim() == 4 && v.dim() == 4 && q.size(3) == k.size(3) &&
      q.size(3) == v.size(3) && q.size(1) == k.size(1) && dropout == 0 && q.numel() && k.numel();
  bool masks = !has(mask) || (!mask->requires_grad() && (mask->dim() == 2 || mask->dim() == 4));
  return is_plain && masks ? 4 /* overrideable */ : 0 /* math */;
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> attention(
    const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& bias,
    double dropout, bool causal, bool, std::optional<double> scale) {
  auto [out, sums] =
      at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, bias, scale);
  return {out, sums, {}, {}, q.size(2), k.size(2), {}, {}, {}};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
    std::array<bool, 4>, const Tensor& out, const Tensor& sums, const Tensor&, const Tensor&,
    c10::SymInt, c10::SymInt, double dropout, bool causal, const Tensor&, const Tensor&,
    std::optional<double> scale) {
  auto mask = bias.defined() ? std::optional<Tensor>(bias) : std::nullopt;
  auto [one, two, three] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      grad, q, k, v, out, sums, dropout, causal, mask, scale);
  return {one, two, three, {}};
}

Tensor summed(Tensor gates, const Tensor& other, const std::optional<Tensor>& one,
              const std::optional<Tensor>& two) {
  gates = gates + other;
  if (has(one)) gates = gates + *one;
  if (has(two)) gates = gates + *two;
  return gates;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(
    const Tensor& x, const Tensor& h, const Tensor& c, const std::optional<Tensor>& one,
    const std::optional<Tensor>& two) {
  auto gates = summed(x, h, one, two).chunk(4, 1);
  auto i = gates[0].sigmoid(), f = gates[1].sigmoid(), g = gates[2].tanh(), o = gates[3].sigmoid();
  auto new_c = f * c + i * g;
  return {o * new_c.tanh(), new_c, at::cat({i, f, g, o}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(
    const std::optional<Tensor>& grad_h, const std::optional<Tensor>& grad_c, const Tensor& c,
    const Tensor& new_c, const Tensor& workspace, bool has_bias) {
  auto gates = workspace.chunk(4, 1);
  auto i = gates[0], f = gates[1], g = gates[2], o = gates[3], t = new_c.tanh();
  auto dh = has(grad_h) ? *grad_h : at::zeros_like(c);
  auto dc = dh * o * (1 - t * t);
  if (has(grad_c)) dc = dc + *grad_c;
  auto grads = at::cat(
      {dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g), dh * t * o * (1 - o)}, 1);
  return {grads, dc * f, has_bias ? grads.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> gru_cell(
    const Tensor& x, const Tensor& h, const Tensor& state, const std::optional<Tensor>& one,
    const std::optional<Tensor>& two) {
  auto from_x = (has(one) ? x + *one : x).chunk(3, 1), from_h = (has(two) ? h + *two : h).chunk(3, 1);
  auto r = (from_x[0] + from_h[0]).sigmoid(), z = (from_x[1] + from_h[1]).sigmoid();
  auto n = (from_x[2] + r * from_h[2]).tanh();
  return {n + z * (state - n), at::cat({r, z, n, state, from_h[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(
    const Tensor& grad, const Tensor& workspace, bool has_bias) {
  auto kept = workspace.chunk(5, 1);
  auto r = kept[0], z = kept[1], n = kept[2], state = kept[3], from_h = kept[4];
  auto dz = grad * (state - n) * z * (1 - z), dn = grad * (1 - z) * (1 - n * n);
  auto dr = dn * from_h * r * (1 - r);
  auto x = at::cat({dr, dz, dn}, 1), h = at::cat({dr, dz, dn * r}, 1);
  if (!has_bias) return {x, h, grad * z, Tensor(), Tensor()};
  return {x, h, grad * z, x.sum(0), h.sum(0)};
}

}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("view", &view);
  m.impl("_reshape_alias", &reshape_alias);
  m.impl("as_strided", &as_strided);
  m.impl("unfold", &unfold);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("set_.source_Storage", &set_whole);
  m.impl("set_.source_Tensor", &set_tensor);
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolution_backward);
  m.impl("_fused_sdp_choice", &choose_attention);
  m.impl("_scaled_dot_product_fused_attention_overrideable", &attention);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", &attention_backward);
  m.impl("_thnn_fused_lstm_cell", &lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", &gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", &gru_cell_backward);
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FULL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_LOWER_PRECISION_FP(LOWER)
  AT_FORALL_FP32(FULL)
}

TORCH_LIBRARY(standin, m) {
  m.def("open() -> ()", [] { open_device(); });
  m.def("is_open() -> bool", [] { return bool(is_open); });
  m.def("is_bad_fork() -> bool", [] { return bool(is_bad_fork); });
  m.def("waits() -> int", [] { return int64_t(waits); });
  m.def("launches() -> int", [] { return int64_t(launches); });
  m.def("set_late(int microseconds) -> ()", [](int64_t late) { late_us = late; });
  m.def("refuse_waits(bool refused) -> ()", [](bool refused) { waits_refused = refused; });
  m.def("seed(int seed) -> ()", [](int64_t seed) {
    for (int i = 0; i < device_count(); i++) {
      auto generator = default_generator(i);
      generator.set_current_seed(seed);
    }
  });
  m.def("rng_state(int index) -> Tensor", [](int64_t index) {
    return default_generator(index).get_state();
  });
  m.def("set_rng_state(Tensor state, int index) -> ()", [](const Tensor& state, int64_t index) {
    auto generator = default_generator(index);
    generator.set_state(state);
  });
}
