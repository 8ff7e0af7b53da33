"""A kubelet's PodResources socket: a real gRPC server that answers what a test says."""

import threading
from concurrent import futures
from contextlib import contextmanager

import grpc

from fleet.adapters.gpus_holders import message_types

TYPES = message_types()


class Kubelet:
    """`pods`: (namespace, pod, container, resource, device ids); `offered`: device ids, None for a kubelet without that call."""

    def __init__(self):
        self.pods = []
        self.offered = []
        self.raw = None  # bytes in place of every answer
        self.silent = threading.Event()  # set: answers nothing until the test is over
        self.over = threading.Event()
        self.asked = []

    def answer(self, method):
        self.asked.append(method)
        if self.silent.is_set():
            self.over.wait()
        if self.raw is not None:
            return self.raw
        if method == "List":
            return self._listed().SerializeToString()
        devices = [{"resource_name": "nvidia.com/gpu", "device_ids": self.offered}]
        return TYPES["AllocatableResourcesResponse"](devices=devices).SerializeToString()

    def _listed(self):
        return TYPES["ListPodResourcesResponse"](
            pod_resources=[
                {
                    "name": pod,
                    "namespace": namespace,
                    "containers": [{"name": container, "devices": [{"resource_name": resource, "device_ids": ids}]}],
                }
                for namespace, pod, container, resource, ids in self.pods
            ]
        )

    def handlers(self):
        names = ["List"] if self.offered is None else ["List", "GetAllocatableResources"]
        return grpc.method_handlers_generic_handler(
            "v1.PodResourcesLister",
            {
                name: grpc.unary_unary_rpc_method_handler(
                    lambda _, __, name=name: self.answer(name)
                )  # bytes in and out
                for name in names
            },
        )


@contextmanager
def served(kubelet, path):
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([kubelet.handlers()])
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield path
    finally:
        kubelet.over.set()
        server.stop(None).wait()
