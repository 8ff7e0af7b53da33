"""The smoke test, asked: the same GET to several pods at once.

Owns how many are asked and for how long. Must not judge an answer: `fleet.domain.smoke` does.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from fleet.domain import smoke
from fleet.domain.releases import declared, ports
from fleet.domain.smoke import Request, Verdict
from fleet.domain.specs import FullPod
from fleet.ports import Changer

MOST_PODS = 64  # of one side; a guard tells of those that nobody asked
AT_ONCE = 16
SLACK_S = 1.0  # so much later than it should, an answer is still slow and not missing


def ask(changer: Changer, pods: Sequence[FullPod], asked: Request) -> tuple[Verdict, ...]:
    """One verdict for each of the first pods by name."""
    chosen = sorted(pods, key=lambda pod: pod.metadata.name)[:MOST_PODS]
    if not chosen:
        return ()
    with ThreadPoolExecutor(min(AT_ONCE, len(chosen)), thread_name_prefix="smoke") as pool:
        return tuple(pool.map(lambda pod: _ask(changer, pod, asked), chosen))


def _ask(changer: Changer, pod: FullPod, asked: Request) -> Verdict:
    port = smoke.port_of(asked, *ports(pod))
    # On its node's network a pod answers for everything there, the kubelet as well: only what it declares is its own.
    if port is None or (pod.spec.host_network and port not in declared(pod)):
        return Verdict(pod.metadata.name, None, 0.0, "no-port", str(asked.port or ""))
    answer = changer.ask_pod(pod.metadata.namespace, pod.metadata.name, port, asked.path, asked.within_s + SLACK_S)
    return smoke.judge(pod.metadata.name, asked, answer)
