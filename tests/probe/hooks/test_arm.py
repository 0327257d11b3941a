from __future__ import annotations

import threading

from cudagraph_doctor.probe.arm import Part


class Watch(Part):
    NAME = "watch"

    def __init__(self):
        self.seen = []

    def prepare(self):
        self.seen.append("prepare")

    def began(self, window):
        self.seen.append(("began", window.id))

    def ended(self, window):
        self.seen.append(("ended", window.id))

    def changed(self, window, q):
        self.seen.append(("changed", window.id))


def test_parts_go_on_and_off_with_the_windows(recorder):
    part = Watch()
    recorder.windows.add(part)
    window = recorder.window()
    assert recorder.windows.leave(window) is True
    assert recorder.windows.leave(window) is False
    assert part.seen == ["prepare", ("began", 1), ("ended", 1)]


def test_a_change_is_named_once_by_the_record_across_which_it_lies(recorder):
    recorder.window()
    q = recorder.context.write("op", name="aten::item")
    recorder.driver.statuses[0x10] = 2
    recorder.windows.look(q, "op")
    recorder.windows.look(recorder.context.write("op", name="aten::add"), "op")
    (status,) = recorder.records("capture-status")
    assert (status.before, status.after, status.across, status.by) == (1, 2, q, "op")


def test_a_change_found_before_a_record_names_what_came_before_and_the_other_threads(recorder):
    recorder.window()
    done = threading.Event()
    worker = threading.Thread(target=done.wait)
    worker.start()
    q = recorder.context.write("op", name="aten::add")
    recorder.windows.look(q, "op")
    recorder.driver.statuses[0x10] = 2
    recorder.windows.look(0, "op", across=False)
    done.set()
    worker.join()
    (status,) = recorder.records("capture-status")
    assert (status.across, status.since) == (0, q)
    assert worker.native_id in {tid for tid, _ in status.threads}


def test_the_call_that_saw_the_change_itself_is_named_though_another_thread_noticed_first(recorder):
    window = recorder.window()
    recorder.driver.statuses[0x10] = 2
    recorder.windows.look(0, "op", across=False)
    q = recorder.context.write("call", api="cudaMalloc", code=900)
    recorder.windows.returned(q, window, 1, 2)
    recorder.windows.returned(q, window, 1, 2)
    assert [status.across for status in recorder.records("capture-status")] == [0, q]


def test_a_capture_that_ended_behind_our_back_closes_its_window(recorder):
    recorder.window()
    recorder.driver.statuses[0x10] = 0
    recorder.windows.look(recorder.context.write("op", name="aten::add"), "op")
    assert recorder.windows.open == ()


def test_a_stream_that_joined_a_capture_belongs_to_its_window(recorder):
    one, two = recorder.window(0x10), recorder.window(0x20)
    recorder.driver.statuses[0x30] = 1
    recorder.driver.capture_info = lambda handle: (1, {0x10: 7, 0x20: 8, 0x30: 8}[handle], 0)
    assert recorder.windows.of_stream(0x10) is one
    assert recorder.windows.of_stream(0x30) is two
    assert recorder.windows.of_stream(0x40) is None


def test_a_part_that_fails_takes_no_other_with_it(recorder):
    class Broken(Part):
        NAME = "broken"

        def began(self, window):
            raise ValueError("broken")

    good = Watch()
    recorder.windows.add(Broken())
    recorder.windows.add(good)
    recorder.window()
    assert ("began", 1) in good.seen
    assert recorder.failures == ["broken: ValueError('broken')"]
    recorder.failures.clear()
