"""A broker behind sentinels finds its master, with and without passwords and dead sentinels."""

import dramatiq
import pytest
from dramatiq.errors import ConnectionFailed

from dramatiq_streams import StreamsBroker
from tests.conftest import MakeBroker, MakeWorker
from tests.contract.queue_state import new_message
from tests.support.certificates import Certificates
from tests.support.sentinels import SERVICE, Deployment
from tests.support.waiting import wait_until


def run_some(broker: StreamsBroker, make_worker: MakeWorker) -> list[int]:
    """Send and run a message that waits and one that is delayed; the numbers of those that ran."""
    runs: list[int] = []

    @dramatiq.actor(broker=broker)
    def work(number: int) -> None:
        runs.append(number)

    work.send(1)
    work.send_with_options(args=(2,), delay=20)
    worker = make_worker(broker)
    broker.join("default", timeout=10_000)
    worker.stop()
    broker.close()
    return sorted(runs)


def test_master_is_found_and_used(
    deployment: Deployment, make_broker: MakeBroker, make_worker: MakeWorker, namespace: str
) -> None:
    assert run_some(make_broker(url=deployment.url), make_worker) == [1, 2]

    assert deployment.master.client().exists(f"{{{namespace}:default:0}}:lane:default")


def test_database_of_the_url_is_used(
    deployment: Deployment, make_broker: MakeBroker, namespace: str
) -> None:
    broker = make_broker(url=f"{deployment.url}/5")

    broker.enqueue(new_message(1))

    assert deployment.master.client(db=5).xlen(f"{{{namespace}:default:0}}:lane:default") == 1


def test_sentinel_that_is_not_there_is_passed_over(
    deployment: Deployment, make_broker: MakeBroker, make_worker: MakeWorker, free_port: int
) -> None:
    url = deployment.url.replace("sentinel://", f"sentinel://127.0.0.1:{free_port},")

    assert run_some(make_broker(url=url), make_worker) == [1, 2]


def test_service_that_no_sentinel_knows_is_named(
    deployment: Deployment, make_broker: MakeBroker
) -> None:
    url = deployment.url.replace(SERVICE, "unheard-of")
    broker = make_broker(url=url, enqueue_timeout=0)

    with pytest.raises(ConnectionFailed, match=r"knows a master of 'unheard-of'"):
        broker.enqueue(new_message(1))


def test_passwords_of_servers_and_sentinels_are_used(
    make_broker: MakeBroker, make_worker: MakeWorker
) -> None:
    with Deployment(password="for-the-server", sentinel_password="for-the-sentinels") as guarded:
        url = guarded.url.replace("//", "//:for-the-server@")

        with pytest.raises(ConnectionFailed, match=r"that is up: Authentication required"):
            make_broker(url=url, enqueue_timeout=0).enqueue(new_message(1))
        complete = f"{url}?sentinel_password=for-the-sentinels"
        assert run_some(make_broker(url=complete), make_worker) == [1, 2]


@pytest.mark.slow
def test_tls_and_passwords_are_used_with_the_next_master_too(
    certificates: Certificates, make_broker: MakeBroker, make_worker: MakeWorker
) -> None:
    with Deployment(
        password="for-the-server",
        sentinel_password="for-the-sentinels",
        certificates=certificates,
    ) as guarded:
        url = guarded.url.replace("//", "//:for-the-server@")
        query = f"sentinel_password=for-the-sentinels&ssl_ca_certs={certificates.authority}"
        broker = make_broker(url=f"{url}?{query}", enqueue_timeout=30_000)
        runs: list[int] = []
        work = dramatiq.actor(broker=broker, actor_name="work")(runs.append)
        make_worker(broker)
        work.send(1)
        wait_until(lambda: runs == [1], timeout=20, message="the first message ran")

        guarded.master.kill()
        guarded.wait_for_failover()
        work.send(2)

        wait_until(lambda: runs == [1, 2], timeout=20, message="the second message ran")
        broker.close()


def test_sentinels_whose_certificates_nobody_vouches_for_are_refused(
    certificates: Certificates, make_broker: MakeBroker
) -> None:
    with Deployment(certificates=certificates) as encrypted:
        trusted = f"{encrypted.url}?ssl_ca_certs={certificates.authority}"
        plain = encrypted.url.replace("sentinels:", "sentinel:")
        make_broker(url=trusted).enqueue(new_message(1))

        with pytest.raises(ConnectionFailed, match=r"[Cc]ertificate"):
            make_broker(url=encrypted.url, enqueue_timeout=0).enqueue(new_message(2))
        with pytest.raises(ConnectionFailed):
            make_broker(url=plain, enqueue_timeout=0).enqueue(new_message(3))
