from backlog.queue import Queue


def test_the_most_urgent_comes_first():
    queue = Queue()
    queue.put("low", priority=1)
    queue.put("high", priority=9)
    assert queue.pop() == "high"


def test_equals_come_in_the_order_they_were_put():
    queue = Queue()
    for name in ("zebra", "ant"):
        queue.put(name, priority=1)
    assert [queue.pop(), queue.pop()] == ["zebra", "ant"]


def test_an_empty_queue_has_no_length():
    assert len(Queue()) == 0


def test_the_length_of_a_queue_is_shown():
    queue = Queue()
    queue.put("one")
    assert str(queue) == "1 items"
