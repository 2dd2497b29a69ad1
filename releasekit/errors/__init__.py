"""Every way a run can end badly that a person can cause or mend.

ReleaseKitError                 exit 1
├── ToolMissing, OddTool, ChildFailed, ChildTimedOut, ServerEnded, BuildFailed
├── LockUnavailable             ─ LocksUnsupported
├── PinsFailed                  ─ PinsRefused, ManifestChanged, RecoveryFailed
├── JobTimedOut, JobCancelled   how an attempt of the scheduler can end without an error of its own
├── DoNotRetry                  what a job raises, or lets its errors inherit: no other attempt
│   └── UploadRefused, NotAuthorised, QuotaReached, OtherBytes, NeverVisible,
│       TrustedPublishingRefused, JournalNotWritten
├── RetryAt                     another attempt, but not before a time
│   └── RateLimited, ReadsLimited
├── TransientRefusal, LostUpload, TrustedPublishingFailed, PreflightFailed
├── NothingRunning, NotListening, NoAnswer, WishRefused
├── DamagedJournal              ─ ForeignJournal
├── UsageError                  exit 2: the command line, the configuration or a manifest is wrong
│   ├── CyclicGraph, DuplicatePackage, BadSetting
│   ├── UnknownPackage, AmbiguousPackage, OptionNeedsPackage, UnknownGroup
│   ├── ConfigError             ├ UnknownKey, WrongType, BadValue, TwoConfigs, UnknownRegistry,
│   │                             RegistryOfOtherKind
│   ├── UnsendableCredential, UnreadableCredentials
│   ├── ManifestError           ├ MissingManifest, UnreadableManifest, BrokenManifest,
│   │                             WrongManifest, MemberOutside, NoPackages
│   └── PinError                └ BoundExcludesSibling, DirectReference, DynamicField, …
├── Interrupted                 exit 3: stopped on purpose; running again continues
│   └── PinsInterrupted
├── Locked                      exit 4: another release is running here
│   └── LockHeld
└── NeedsRecovery               exit 5: files wait for a decision of yours
    └── EditConflict, BrokenIntent

A class writes its message and its hint; `__main__` alone turns the class into an exit code.
"""

from releasekit.errors.base import *
from releasekit.errors.children import *
from releasekit.errors.configuration import *
from releasekit.errors.journals import *
from releasekit.errors.manifests import *
from releasekit.errors.pins import *
from releasekit.errors.preflight import *
from releasekit.errors.registries import *
from releasekit.errors.scheduling import *
