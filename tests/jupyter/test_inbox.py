"""Messages of the browser are handled in the order in which they were sent."""

import threading

import pytest

from taxpr_jupyter._view import inbox as _inbox
from taxpr_jupyter._view.inbox import Inbox


def sent(number, page="page"):
    return {"from": page, "number": number}


@pytest.fixture
def seen():
    return []


@pytest.fixture
def inbox(seen):
    return Inbox(lambda content: seen.append(content.get("number")))


def test_what_comes_early_waits(inbox, seen):
    for number in (3, 1, 4, 2):
        inbox.take(sent(number))
    assert seen == [1, 2, 3, 4]


def test_each_page_counts_for_itself_and_a_message_without_a_number_does_not_wait(inbox, seen):
    inbox.take(sent(1))
    inbox.take(sent(2, "other"))
    inbox.take({"do": "cancel"})
    inbox.take(sent(1, "other"))
    assert seen == [1, None, 1, 2]


def test_one_message_at_a_time(seen):
    go_on, begun = threading.Event(), threading.Event()

    def handle(content):
        begun.set()
        go_on.wait(60)
        seen.append((content["number"], threading.current_thread()))

    inbox = Inbox(handle)
    first = threading.Thread(target=inbox.take, args=(sent(1),))
    first.start()
    begun.wait(60)
    inbox.take(sent(2))  # comes back at once: the other thread goes on with it
    assert seen == []
    go_on.set()
    first.join(60)
    assert seen == [(1, first), (2, first)]


def test_an_error_does_not_stop_the_next(seen):
    def handle(content):
        seen.append(content["number"])
        if content["number"] == 1:
            raise KeyboardInterrupt

    inbox = Inbox(handle)
    inbox.take(sent(2))
    with pytest.raises(KeyboardInterrupt):
        inbox.take(sent(1))
    inbox.take(sent(3))
    assert seen == [1, 2, 3]


def test_what_waited_for_a_message_with_an_error_is_handled(seen):
    def handle(content):
        seen.append(content["number"])
        if content["number"] < 3:
            raise KeyboardInterrupt(content["number"])

    inbox = Inbox(handle)
    for number in (2, 3):
        inbox.take(sent(number))
    with pytest.raises(KeyboardInterrupt, match="1"):
        inbox.take(sent(1))
    assert seen == [1, 2, 3]


def test_a_message_that_never_comes_is_given_up(seen, monkeypatch):
    monkeypatch.setattr(_inbox, "MISSING_AFTER", 0.01)
    done = threading.Event()

    def handle(content):
        seen.append(content["number"])
        if len(seen) == 2:
            done.set()

    inbox = Inbox(handle)
    inbox.take(sent(1))
    inbox.take(sent(3))
    assert done.wait(60)
    inbox.take(sent(2))  # late is better than never
    assert seen == [1, 3, 2]
