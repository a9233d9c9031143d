"""Kubernetes manifests: pods that train, and a launcher pod that measures the suite on them like on other hosts.

Kubeflow's operators create the SSH key with which the launcher pod reaches the others, and the host list
``/etc/mpi/hostfile``. ``MPIJob`` is defined by kubeflow/mpi-operator (v2beta1), ``TrainJob`` by kubeflow/trainer
(v1alpha1 of its version 2); a ``TrainJob`` comes with a ``TrainingRuntime`` that uses the operator's MPI policy.
"""

from typing import Any, TypeAlias

from trainmark.errors import InputError
from trainmark.schema.job import Job, JobKind, KubernetesJob
from trainmark.submission.measuring import measure_command

Manifest: TypeAlias = dict[str, Any]

HOSTFILE = "/etc/mpi/hostfile"
SUITE_FOLDER = "/etc/trainmark"
GRACE_S = 300
"""The time for the launcher to end the current run and to copy its files back, in seconds."""

_SUITE, _MEMORY = "suite", "shared-memory"
_HOST = "kubernetes.io/hostname"


def kubernetes_manifests(job: Job, kind: JobKind) -> list[Manifest]:
    """Return the manifests of a job: its suite as a ConfigMap, and the job itself, with its runtime if it has one.

    Raises ``InputError`` if the hosts file has no section for pods.
    """
    pods = job.settings.kubernetes
    if pods is None:
        raise InputError(
            "job.kubernetes: is missing in the hosts file (add it, with the 'image' of the pods)"
        )
    made = _mpi_job(job, pods) if kind is JobKind.MPIJOB else _train_job(job, pods)
    return [_config_map(job, pods), *made]


def _mpi_job(job: Job, pods: KubernetesJob) -> list[Manifest]:
    settings = job.settings
    policy: Manifest = {"cleanPodPolicy": "Running", "backoffLimit": settings.restarts}
    if settings.time_limit_s is not None:
        policy["activeDeadlineSeconds"] = settings.time_limit_s
    replicas = {
        "Launcher": {
            "replicas": 1,
            "restartPolicy": "OnFailure",
            "template": {"spec": _launcher(job, pods, "launcher")},
        },
        "Worker": {
            "replicas": job.nodes,
            "restartPolicy": "OnFailure",
            "template": {"metadata": {"labels": _labels(job)}, "spec": _trainer(job, pods, "worker")},
        },
    }
    spec = {
        "slotsPerWorker": job.devices_per_node,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": str(pods.ssh_folder),
        "launcherCreationPolicy": "WaitForWorkersReady",
        "runPolicy": policy,
        "mpiReplicaSpecs": replicas,
    }
    head = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": _metadata(job.name, pods)}
    return [{**head, "spec": spec}]


def _train_job(job: Job, pods: KubernetesJob) -> list[Manifest]:
    group = "trainer.kubeflow.org"
    launcher, node = _launcher(job, pods, "node"), _trainer(job, pods, "node")
    mpi = {
        "numProcPerNode": job.devices_per_node,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": str(pods.ssh_folder),
    }
    replicated = [
        {
            "name": "node",
            "template": {"spec": {"template": {"metadata": {"labels": _labels(job)}, "spec": node}}},
        },
        {
            "name": "launcher",
            "dependsOn": [{"name": "node", "status": "Ready"}],
            "template": {
                "metadata": {"labels": {f"{group}/trainjob-ancestor-step": "trainer"}},
                "spec": {
                    "backoffLimit": job.settings.restarts,
                    "template": {"spec": {**launcher, "restartPolicy": "OnFailure"}},
                },
            },
        },
    ]
    runtime = {
        "apiVersion": f"{group}/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": _metadata(job.name, pods),
        "spec": {
            "mlPolicy": {"numNodes": 1, "mpi": mpi},
            "template": {
                "spec": {
                    "network": {"publishNotReadyAddresses": True},
                    "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
                    "replicatedJobs": replicated,
                }
            },
        },
    }
    reference = {"apiGroup": group, "kind": "TrainingRuntime", "name": job.name}
    spec: Manifest = {"runtimeRef": reference, "trainer": {"numNodes": job.nodes}}
    if job.settings.time_limit_s is not None:
        spec["activeDeadlineSeconds"] = job.settings.time_limit_s
    train_job = {
        "apiVersion": f"{group}/v1alpha1",
        "kind": "TrainJob",
        "metadata": _metadata(job.name, pods),
        "spec": spec,
    }
    return [runtime, train_job]


def _config_map(job: Job, pods: KubernetesJob) -> Manifest:
    data = {"suite.yaml": job.suite} | {_key(number): text for number, text in enumerate(job.files.values())}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(_map_name(job), pods),
        "data": data,
    }


def _launcher(job: Job, pods: KubernetesJob, container: str) -> Manifest:
    words = measure_command(job, f"{SUITE_FOLDER}/suite.yaml", ("--hosts", HOSTFILE, "--engine", "mpi"))
    items = [{"key": "suite.yaml", "path": "suite.yaml"}]
    items += [{"key": _key(number), "path": path} for number, path in enumerate(job.files)]
    spec = _pod(pods, {"name": container, "image": pods.image, "command": list(words)})
    spec["terminationGracePeriodSeconds"] = GRACE_S
    spec["volumes"].append({"name": _SUITE, "configMap": {"name": _map_name(job), "items": items}})
    spec["containers"][0]["volumeMounts"].append(
        {"name": _SUITE, "mountPath": SUITE_FOLDER, "readOnly": True}
    )
    return spec


def _trainer(job: Job, pods: KubernetesJob, container: str) -> Manifest:
    given = {"cpu": pods.cpus, "memory": pods.memory}
    limits: Manifest = {name: amount for name, amount in given.items() if amount is not None}
    limits |= {pods.gpu: job.gpus} if job.gpus else {}
    limits |= pods.rdma
    within: Manifest = {"name": container, "image": pods.image, "command": list(pods.sshd)}
    if pods.ssh_port is not None:
        within["readinessProbe"] = {"tcpSocket": {"port": pods.ssh_port}}
    if limits:
        # Requests default to the limits, so a pod has its cores and memory for itself.
        within["resources"] = {"limits": limits}
    if pods.rdma:
        within["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}
    spec = _pod(pods, within)
    if pods.shared_memory is not None:
        memory = {"medium": "Memory", "sizeLimit": pods.shared_memory}
        spec["volumes"].append({"name": _MEMORY, "emptyDir": memory})
        spec["containers"][0]["volumeMounts"].append({"name": _MEMORY, "mountPath": "/dev/shm"})  # noqa: S108 (in the pod)
    if pods.host_network:
        # The operators set this too; without it pods are not found by their names.
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if pods.node_labels:
        spec["nodeSelector"] = dict(pods.node_labels)
    if pods.tolerations:
        spec["tolerations"] = [{"key": key, "operator": "Exists"} for key in pods.tolerations]
    # Two nodes of a case on one machine would be measured as two machines.
    separate = {"labelSelector": {"matchLabels": _labels(job)}, "topologyKey": _HOST}
    affinity: Manifest = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [separate]}}
    if job.hosts:
        named = {"key": _HOST, "operator": "In", "values": list(job.hosts)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [named]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}} | affinity
    return {**spec, "affinity": affinity}


def _pod(pods: KubernetesJob, container: Manifest) -> Manifest:
    claims = {f"claim-{number}": claim for number, claim in enumerate(pods.claims.items())}
    mounts = [{"name": name, "mountPath": str(path)} for name, (_, path) in claims.items()]
    spec: Manifest = {"containers": [{**container, "volumeMounts": mounts}]}
    if pods.user:
        spec["securityContext"] = {"runAsUser": pods.user, "fsGroup": pods.user}
    spec["volumes"] = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, (claim, _) in claims.items()
    ]
    return spec


def _metadata(name: str, pods: KubernetesJob) -> Manifest:
    return {"name": name} | ({} if pods.namespace is None else {"namespace": pods.namespace})


def _labels(job: Job) -> dict[str, str]:
    return {"trainmark-job": job.name}


def _map_name(job: Job) -> str:
    return f"{job.name}-suite"


def _key(number: int) -> str:
    return f"card-{number}.yaml"
