"""Several trackings as one, none of which can harm a case: whoever fails is said once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from selectivbench.record import Record, Tracker
from selectivbench.tracking.contract import Follower, Start, Tracking

Told = Callable[[Follower], object]


class Together:
    """All of its members. One that raises hears no more of that training."""

    name = "tracking"

    def __init__(self, members: Iterable[Tracking] = ()) -> None:
        self._members = tuple(members)
        self._troubles: dict[str, str] = {}

    @property
    def troubles(self) -> tuple[str, ...]:
        """One sentence for each member that has failed, about the first time that it did."""
        return tuple(self._troubles.values())

    def follow(self, start: Start) -> Follower:
        """Every member's follower as one."""
        followers: dict[Tracking, Follower] = {}
        for member in self._members:
            self._tried(member, partial(_follow, followers, member, start))
        return _Followers(followers, self._tried)

    def known(self, record: Record, source: str) -> None:
        """Tell every member."""
        for member in self._members:
            self._tried(member, partial(member.known, record, source))

    def close(self) -> None:
        """Close every member."""
        for member in self._members:
            self._tried(member, member.close)

    def _tried(self, member: Tracking, do: Callable[[], object]) -> bool:
        """Whether it went well; what went wrong is kept."""
        try:
            do()
        except Exception as error:
            self._troubles.setdefault(member.name, f"{member.name}: {_reason(error)}")
            return False
        return True


class Given:
    """A tracker that is there already, as a member: every training is told to the same one."""

    name = "tracker"

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker

    def follow(self, start: Start) -> Follower:  # noqa: ARG002 - every member takes its start
        """The tracker itself."""
        return _Endless(self._tracker)

    def known(self, record: Record, source: str) -> None:
        """Nothing: it follows trainings."""

    def close(self) -> None:
        """Nothing: it is its owner's."""


class _Endless:
    def __init__(self, tracker: Tracker) -> None:
        self.point, self.done = tracker.point, tracker.done

    def end(self) -> None:
        """Nothing: the tracker goes on."""


class _Followers:
    """The followers of one training."""

    def __init__(
        self,
        followers: dict[Tracking, Follower],
        tried: Callable[[Tracking, Callable[[], object]], bool],
    ) -> None:
        self._followers, self._tried = followers, tried
        self._listening = set(followers)

    def point(self, step: int, steps: int, loss: float, accuracy: float | None) -> None:
        self._tell(lambda follower: follower.point(step, steps, loss, accuracy))

    def done(self, record: Record) -> None:
        self._tell(lambda follower: follower.done(record))

    def end(self) -> None:
        """Also those that failed: they may hold a file."""
        for member, follower in self._followers.items():
            self._tried(member, follower.end)

    def _tell(self, told: Told) -> None:
        for member, follower in self._followers.items():
            if member in self._listening and not self._tried(member, partial(told, follower)):
                self._listening.discard(member)


def _follow(followers: dict[Tracking, Follower], member: Tracking, start: Start) -> None:
    followers[member] = member.follow(start)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
