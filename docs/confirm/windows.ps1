#Requires -Version 5.1
<#
Prints answers that the Windows model of sandboxc rests on and that no other machine can give. It changes
nothing outside one scratch directory of its own below TEMP, which it removes, and needs no administrator.

  powershell -NoProfile -ExecutionPolicy Bypass -File windows.ps1

Each line is `name = answer` and, behind a #, what the model assumes. Please report lines that differ.
Not run by the project itself: it has no Windows. What it starts are copies of cmd.exe with a restricted token.
#>
[CmdletBinding()]
param()

Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

Add-Type -TypeDefinition @'
using System;
using System.Collections.Generic;
using System.ComponentModel;
using System.Runtime.InteropServices;
using System.Security.Principal;
using System.Text;

public static class Confirm
{
    [StructLayout(LayoutKind.Sequential)] public struct SidAndAttributes { public IntPtr Sid; public uint Attributes; }
    [StructLayout(LayoutKind.Sequential, CharSet = CharSet.Unicode)]
    public struct StartupInfo
    {
        public int cb; public string reserved; public string desktop; public string title;
        public int x, y, xSize, ySize, xChars, yChars, fill, flags; public short show, reserved2;
        public IntPtr reserved3, stdIn, stdOut, stdErr;
    }
    [StructLayout(LayoutKind.Sequential)] public struct ProcessInformation { public IntPtr process, thread; public int pid, tid; }

    [DllImport("advapi32.dll", SetLastError = true)]
    static extern bool OpenProcessToken(IntPtr process, uint access, out IntPtr token);
    [DllImport("advapi32.dll", SetLastError = true)]
    static extern bool CreateRestrictedToken(IntPtr token, uint flags, uint disable, IntPtr disabled, uint delete,
        IntPtr deleted, uint restrict, SidAndAttributes[] restricted, out IntPtr result);
    [DllImport("advapi32.dll", SetLastError = true)]
    static extern bool GetTokenInformation(IntPtr token, int kind, IntPtr buffer, int size, out int needed);
    [DllImport("advapi32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
    static extern bool CreateProcessAsUser(IntPtr token, string name, StringBuilder command, IntPtr p, IntPtr t, bool inherit,
        uint flags, IntPtr environment, string directory, ref StartupInfo startup, out ProcessInformation info);
    [DllImport("kernel32.dll", SetLastError = true)] static extern uint WaitForSingleObject(IntPtr handle, uint milliseconds);
    [DllImport("kernel32.dll", SetLastError = true)] static extern bool GetExitCodeProcess(IntPtr process, out uint code);
    [DllImport("kernel32.dll", SetLastError = true)] static extern bool TerminateProcess(IntPtr process, uint code);
    [DllImport("kernel32.dll")] static extern IntPtr GetCurrentProcess();
    [DllImport("kernel32.dll")] static extern bool CloseHandle(IntPtr handle);

    static IntPtr Own()
    {
        IntPtr token;
        if (!OpenProcessToken(GetCurrentProcess(), 0x000F01FF, out token)) throw new Win32Exception();
        return token;
    }

    // The logon SID of this session: the group that carries SE_GROUP_LOGON_ID.
    public static string LogonSid()
    {
        IntPtr token = Own();
        int size;
        GetTokenInformation(token, 2, IntPtr.Zero, 0, out size);
        IntPtr buffer = Marshal.AllocHGlobal(size);
        try
        {
            if (!GetTokenInformation(token, 2, buffer, size, out size)) throw new Win32Exception();
            int count = Marshal.ReadInt32(buffer);
            int step = Marshal.SizeOf(typeof(SidAndAttributes));
            for (int at = 0; at < count; at++)
            {
                IntPtr entry = new IntPtr(buffer.ToInt64() + IntPtr.Size + (long)at * step);
                SidAndAttributes one = (SidAndAttributes)Marshal.PtrToStructure(entry, typeof(SidAndAttributes));
                if ((one.Attributes & 0xC0000000) == 0xC0000000) return new SecurityIdentifier(one.Sid).Value;
            }
            return "";
        }
        finally { Marshal.FreeHGlobal(buffer); CloseHandle(token); }
    }

    // Runs a command under a restricted token; returns its exit code, or minus the error number.
    public static long Run(string command, uint flags, string[] sids)
    {
        IntPtr token = Own(), restricted;
        var entries = new SidAndAttributes[sids.Length];
        var pinned = new List<GCHandle>();
        try
        {
            for (int at = 0; at < sids.Length; at++)
            {
                var sid = new SecurityIdentifier(sids[at]);
                var bytes = new byte[sid.BinaryLength];
                sid.GetBinaryForm(bytes, 0);
                var handle = GCHandle.Alloc(bytes, GCHandleType.Pinned);
                pinned.Add(handle);
                entries[at].Sid = handle.AddrOfPinnedObject();
            }
            if (!CreateRestrictedToken(token, flags, 0, IntPtr.Zero, 0, IntPtr.Zero, (uint)entries.Length, entries, out restricted))
                return -Marshal.GetLastWin32Error();
            var startup = new StartupInfo();
            startup.cb = Marshal.SizeOf(typeof(StartupInfo));
            ProcessInformation info;
            if (!CreateProcessAsUser(restricted, null, new StringBuilder(command), IntPtr.Zero, IntPtr.Zero, false,
                    0x08000000, IntPtr.Zero, null, ref startup, out info))
                return -Marshal.GetLastWin32Error();
            if (WaitForSingleObject(info.process, 20000) != 0) TerminateProcess(info.process, 999);
            uint code;
            GetExitCodeProcess(info.process, out code);
            CloseHandle(info.process); CloseHandle(info.thread); CloseHandle(restricted);
            return code;
        }
        finally { foreach (var handle in pinned) handle.Free(); CloseHandle(token); }
    }
}
'@

function Show-Answer([string] $Name, $Answer, [string] $Model) { Write-Output ('{0} = {1}  # model: {2}' -f $Name, $Answer, $Model) }

function Add-Entry([string] $Path, [string] $Ace) {
    $access = [System.Security.AccessControl.AccessControlSections]::Access
    $isDirectory = [System.IO.Directory]::Exists($Path)
    if ($isDirectory) { $item = New-Object System.IO.DirectoryInfo $Path } else { $item = New-Object System.IO.FileInfo $Path }
    if ($PSVersionTable.PSEdition -eq 'Core') { $security = [System.IO.FileSystemAclExtensions]::GetAccessControl($item, $access) }
    else { $security = $item.GetAccessControl($access) }
    $raw = New-Object System.Security.AccessControl.RawSecurityDescriptor ($security.GetSecurityDescriptorSddlForm($access))
    $new = (New-Object System.Security.AccessControl.RawSecurityDescriptor ('D:' + $Ace)).DiscretionaryAcl[0]
    $at = 0
    if ($new.AceQualifier -ne [System.Security.AccessControl.AceQualifier]::AccessDenied) {
        while ($at -lt $raw.DiscretionaryAcl.Count -and
            $raw.DiscretionaryAcl[$at].AceQualifier -eq [System.Security.AccessControl.AceQualifier]::AccessDenied -and
            -not ($raw.DiscretionaryAcl[$at].AceFlags -band [System.Security.AccessControl.AceFlags]::Inherited)) { $at++ }
    }
    $raw.DiscretionaryAcl.InsertAce($at, $new)
    $security.SetSecurityDescriptorSddlForm($raw.GetSddlForm($access), $access)
    if ($PSVersionTable.PSEdition -eq 'Core') { [System.IO.FileSystemAclExtensions]::SetAccessControl($item, $security) }
    else { $item.SetAccessControl($security) }
}

$top = Join-Path ([System.IO.Path]::GetTempPath()) ('sandboxc-confirm-' + [System.Guid]::NewGuid().ToString('N'))
[void] [System.IO.Directory]::CreateDirectory($top)
try {
    Show-Answer 'windows' ([System.Environment]::OSVersion.Version) 'any that gets updates'
    Show-Answer 'powershell' $PSVersionTable.PSVersion '5.1 or later'
    $logon = [Confirm]::LogonSid()
    $everyone = 'S-1-1-0'; $root = 'S-1-4-11-22-33-44'; $guard = 'S-1-4-55-66-77'
    Show-Answer 'logon-sid' ($logon -like 'S-1-5-5-*') 'True'

    foreach ($name in @('w', 'w\ro', 'w\ro\rw', 'w\pin', 'w\pin\ro', 'out')) { [void] [System.IO.Directory]::CreateDirectory([System.IO.Path]::Combine($top, $name)) }
    foreach ($name in @('w\f', 'w\ro\f', 'w\ro\rw\f', 'w\pin\ro\f', 'out\f')) { [System.IO.File]::WriteAllText([System.IO.Path]::Combine($top, $name), 'x') }
    Add-Entry "$top\w" "(A;OICI;0x100116;;;$root)"
    Add-Entry "$top\w" "(A;OICIIO;0x10000;;;$root)"
    Add-Entry "$top\w\ro" "(D;OICI;0xd0156;;;$guard)"
    Add-Entry "$top\w\ro\rw" "(A;OICI;0x100116;;;$root)"
    Add-Entry "$top\w\ro\rw" "(A;OICIIO;0x10000;;;$root)"
    Add-Entry "$top\w\pin\ro" "(D;OICI;0xd0156;;;$guard)"
    Add-Entry "$top\w\pin" "(D;;0x10000;;;$guard)"

    $writeRestricted = 1 -bor 4 -bor 8  # DISABLE_MAX_PRIVILEGE, LUA_TOKEN, WRITE_RESTRICTED
    $every = @($logon, $everyone, $root, $guard)
    function Invoke-Boxed([string] $Command, [string[]] $With = $every, [uint32] $Flags = $writeRestricted) {
        return [Confirm]::Run("cmd.exe /d /c $Command", $Flags, $With)
    }
    function Test-Boxed([string] $Name, [string] $Command, [bool] $Allowed) {
        Show-Answer $Name ((Invoke-Boxed $Command) -eq 0) "$Allowed"
    }
    Show-Answer 'start' (Invoke-Boxed 'exit 0') '0'
    Show-Answer 'start-without-everyone' (Invoke-Boxed 'exit 0' @($logon, $root)) 'not 0'
    Show-Answer 'start-without-logon' (Invoke-Boxed 'exit 0' @($everyone, $root)) 'not 0'
    Show-Answer 'start-strict' (Invoke-Boxed 'exit 0' @($logon, $everyone, 'S-1-5-32-545') 5) '0'
    Test-Boxed 'read-outside' "type `"$top\out\f`"" $true
    Test-Boxed 'write-outside' "echo y> `"$top\out\f`"" $false
    Test-Boxed 'write-root' "echo y> `"$top\w\f`"" $true
    Test-Boxed 'create-in-root' "echo y> `"$top\w\new`"" $true
    Test-Boxed 'delete-own-in-root' "del `"$top\w\new`" && if exist `"$top\w\new`" exit 1" $true
    Test-Boxed 'read-island' "type `"$top\w\ro\f`"" $true
    Test-Boxed 'write-island' "echo y> `"$top\w\ro\f`"" $false
    Test-Boxed 'create-in-island' "echo y> `"$top\w\ro\new`"" $false
    Test-Boxed 'rename-island' "ren `"$top\w\ro`" ro2" $false
    Test-Boxed 'write-deeper-root' "echo y> `"$top\w\ro\rw\f`"" $true
    Test-Boxed 'rename-pinned' "ren `"$top\w\pin`" pin2" $false
    Test-Boxed 'create-in-pinned' "echo y> `"$top\w\pin\new`"" $true
    Test-Boxed 'rename-root' "ren `"$top\w`" w2" $false
    Test-Boxed 'link-to-outside' "mklink /h `"$top\w\hard`" `"$top\out\f`"" $false
    Test-Boxed 'change-list' "icacls `"$top\w\f`" /grant Everyone:F" $false

    # Which entry a file with two names has after its lists were renewed.
    $made = (Start-Process -FilePath cmd.exe -ArgumentList "/d /c mklink /h `"$top\w\second`" `"$top\w\ro\f`"" -Wait -PassThru -WindowStyle Hidden).ExitCode
    if ($made -eq 0) {
        Add-Entry "$top\w" "(A;OICI;0x20000;;;$root)"
        Test-Boxed 'write-through-second-name' "echo y> `"$top\w\second`"" $false
    }
    # Names: case, 8.3, the extended form, a trailing dot.
    Show-Answer 'folds-case' ([System.IO.File]::Exists("$top\W\F")) 'True'
    Show-Answer 'folds-sharp-s' ([System.IO.File]::Exists("$top\w\SS") -and [System.IO.File]::Exists("$top\w\" + [char] 0xdf)) 'False'
    Test-Boxed 'write-island-extended-form' "echo y> `"\\?\$top\w\ro\f`"" $false
    Test-Boxed 'write-island-other-case' "echo y> `"$($top.ToUpperInvariant())\W\RO\F`"" $false
    $short = (New-Object -ComObject Scripting.FileSystemObject).GetFolder("$top\w\pin").ShortPath
    Show-Answer 'short-names' ($short -match '~') 'either'
    # What everybody may write stays open.
    Show-Answer 'public-writable' ((Invoke-Boxed "echo y> `"%PUBLIC%\Documents\sandboxc-confirm.txt`" && del `"%PUBLIC%\Documents\sandboxc-confirm.txt`"") -eq 0) 'False'
    # The SID of a path, as the compiler derives it.
    $hasher = [System.Security.Cryptography.SHA256]::Create()
    $hash = $hasher.ComputeHash([System.Text.Encoding]::UTF8.GetBytes('sandboxc-root-1' + [char] 0 + 'C:\WORK'))
    $sid = 'S-1-4'
    for ($at = 0; $at -lt 4; $at++) { $sid += '-' + ([long] [System.BitConverter]::ToUInt32($hash, 4 * $at) % 2147483646 + 1) }
    Show-Answer 'sid-of-C:\WORK' $sid 'S-1-4-550096339-279891282-1071157418-111137930'
} finally {
    Remove-Item -LiteralPath $top -Recurse -Force
}
