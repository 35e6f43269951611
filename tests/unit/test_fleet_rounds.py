"""Which node does which block next, and when a block has been tried often enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bufferlab.execute.fleet.rounds import MOST_TRIES, Node, Rounds


@given(st.data())
def test_each_block_is_whole_in_the_end_or_was_tried_three_times_and_no_node_does_two(data: st.DataObject) -> None:
    nodes = [
        Node(str(number), str(number), 1, (str(number // 2), "")) for number in range(data.draw(st.integers(1, 4)))
    ]
    blocks = range(data.draw(st.integers(0, 6)))
    rounds, tried, whole = Rounds((block, None) for block in blocks), dict.fromkeys(blocks, 0), set[int]()
    running: dict[Node, int] = {}
    while rounds.waiting or running:
        for node in nodes:
            if node not in running and (block := rounds.begin(node, nodes)) is not None:
                assert block not in running.values()
                assert block not in whole
                running[node], tried[block] = block, tried[block] + 1
        assert running, "an idle cluster has nothing to do, and blocks wait"
        node = data.draw(st.sampled_from(sorted(running, key=lambda one: one.node_id)))
        block = running.pop(node)
        ends_well, has_runs = data.draw(st.booleans()), data.draw(st.booleans())
        again = rounds.end(block, node, whole=ends_well, host=node.host if has_runs else None)
        assert again == (not ends_well and tried[block] < MOST_TRIES)
        if ends_well:
            whole.add(block)
        if len(nodes) > 1 and data.draw(st.booleans()):
            nodes.remove(data.draw(st.sampled_from([one for one in nodes if one not in running] or nodes[:1])))
            running = {node: block for node, block in running.items() if node in nodes}
            for lost in [block for block in tried if block in rounds._begun and block not in running.values()]:
                rounds.end(lost, Node("gone", "gone", 1), whole=False, host=None)
    assert set(rounds.missing) == {block for block in blocks if block not in whole}
    assert all(tried[block] == MOST_TRIES for block in rounds.missing)


def test_runs_that_are_home_are_continued_by_their_host_once_and_then_by_another() -> None:
    here, there = Node("a", "a", 2, ("h", "1")), Node("b", "b", 2, ("h", "2"))
    rounds = Rounds([(0, here.host)])
    assert rounds.begin(there, [here, there]) is None, "its host is alive"
    assert rounds.begin(here, [here, there]) == 0
    assert rounds.end(0, here, whole=False, host=here.host)
    assert rounds.begin(there, [here, there]) is None
    assert rounds.begin(here, [here, there]) == 0
    assert rounds.end(0, here, whole=False, host=here.host)
    assert rounds.begin(here, [here, there]) is None, "it has failed there twice"
    assert rounds.begin(there, [here, there]) == 0
    assert not rounds.end(0, there, whole=False, host=None)
    assert (rounds.waiting, rounds.missing) == ([], [0])


def test_a_block_whose_host_is_gone_goes_to_any_node() -> None:
    other = Node("b", "b", 2, ("h", "2"))
    assert Rounds([(4, ("h", "1"))]).begin(other, [other]) == 4
