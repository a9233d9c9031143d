"""Which environment variables a manifest may keep: an allow-list; the environment as a whole is never recorded."""

import re
from collections.abc import Mapping

_NAMES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MODULE_LOADING", "CUDA_CACHE_DISABLE", "CUDA_VERSION", "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE", "NVIDIA_PYTORCH_VERSION", "NVIDIA_TENSORFLOW_VERSION",
    "NVIDIA_MXNET_VERSION", "NVIDIA_BUILD_ID", "CUDNN_VERSION", "NCCL_VERSION", "TF32_OVERRIDE", "TF_XLA_FLAGS",
    "TF_ENABLE_ONEDNN_OPTS", "TF_CUDNN_DETERMINISTIC", "TF_GPU_THREAD_MODE", "TF_GPU_THREAD_COUNT",
    "TF_FORCE_GPU_ALLOW_GROWTH", "TF_ENABLE_AUTO_MIXED_PRECISION", "TF_AUTOTUNE_THRESHOLD", "XLA_FLAGS",
    "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_MEM_FRACTION", "JAX_PLATFORMS", "JAX_ENABLE_X64",
    "LD_PRELOAD", "MALLOC_CONF", "MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS", "PYTHONHASHSEED", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "WORLD_SIZE",
    "LOCAL_WORLD_SIZE", "MKLDNN_VERBOSE", "MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT", "GLOG_v",
    "GLOG_minloglevel", "TF_CPP_MIN_LOG_LEVEL", "KERAS_BACKEND", "PJRT_NPROC",
)  # fmt: skip

_PREFIXES = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "NCCL_", "GLOO_", "UCX_", "TORCH_", "TORCHINDUCTOR_",
    "TORCHDYNAMO_", "MXNET_", "FLAGS_", "HOROVOD_", "DALI_", "OMPI_MCA_",
)  # fmt: skip

_SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/@\s]*@")


def allowed_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that change how a framework runs, by name.

    Left out although on the list: names that sound like a secret (a key, a token). Credentials in an address
    within a value are cut out.
    """
    return {
        name: _USERINFO.sub("", value)
        for name, value in sorted(environ.items())
        if (name in _NAMES or name.startswith(_PREFIXES)) and not _SECRET.search(name)
    }
